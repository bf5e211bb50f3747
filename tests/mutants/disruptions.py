"""Mutants of what happens when nodes are emptied."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_KEEPING = "tests/unit/tenancy/claims/deciding/test_keeping.py::"
_CORDONS = "tests/unit/tenancy/claims/reading/test_cordons.py::"
_BUDGET = "tests/unit/tenancy/disruptions/test_budget.py::"

MUTANTS = {
    "a cordoned node is left without saving": Mutant(
        "boilerhouse.tenancy.claims.deciding.keeping",
        'f"the node {seen.cordoned} is cordoned")',
        'f"the node {seen.cordoned} is cordoned", drop=True)',
        _KEEPING + "test_on_a_cordoned_node_it_is_hibernated",
    ),
    "everybody leaves a cordoned node at once": Mutant(
        "boilerhouse.tenancy.claims.reading.cordons",
        "return staying[: max(0, at_once - leaving)]",
        "return staying",
        _CORDONS + "test_who_is_on_the_way_has_a_turn",
    ),
    "a node that is cordoned no more is emptied": Mutant(
        "boilerhouse.tenancy.claims.reading.cordons",
        "            self._cordoned.discard(change.key.name)\n",
        "            self._cordoned.add(change.key.name)\n",
        _CORDONS + "test_nobody_leaves_a_node_that_is_not_cordoned",
    ),
    "the budget spares one": Mutant(
        "boilerhouse.tenancy.disruptions.build",
        "return _budget(name, claimed, everyone)",
        "return _budget(name, claimed - 1, everyone)",
        _BUDGET + "test_every_claimed_instance_is_kept",
    ),
    "the number stays what it was": Mutant(
        "boilerhouse.core.upkeep",
        'if not same(there.spec, wanted["spec"]):',
        'if there.spec["selector"] != wanted["spec"]["selector"]:',
        _BUDGET + "test_the_number_follows_and_changes_of_others_do_not_stay",
    ),
    "Pods that are not listed yet are none": Mutant(
        "boilerhouse.tenancy.disruptions.keep",
        "if not (self._pods.synced.is_set() and self._helper.synced.is_set()):",
        "if not self._helper.synced.is_set():",
        _BUDGET + "test_nothing_is_counted_before_the_pods_are_known",
    ),
}
