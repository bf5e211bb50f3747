"""Mutants of limits: connections, shares, Events."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LISTENING = "tests/unit/platform/serving/test_listening.py::"
_SHARES = "tests/unit/edge/api/test_shares.py::"
_CORRELATION = "tests/unit/platform/kube/test_correlation.py::"
_SWEEPS = "tests/unit/embedded/apiserver/background/test_sweeps.py::"

MUTANTS = {
    "a full listener accepts on": Mutant(
        "boilerhouse.platform.serving.accepting",
        "            self._wait_for_room()\n            return\n",
        "            pass\n",
        _LISTENING + "test_when_all_are_busy_the_next_one_waits_and_is_not_refused",
    ),
    "idle connections stay at the limit": Mutant(
        "boilerhouse.platform.serving.listening",
        "            del self._idle[key]\n            end()\n            return True\n",
        "            return False\n",
        _LISTENING + "test_at_the_limit_the_longest_idle_connection_makes_room",
    ),
    "a detached connection counts for ever": Mutant(
        "boilerhouse.platform.serving.accepting",
        "        super().close()\n        self._give_back()\n",
        "        super().close()\n",
        _LISTENING + "test_what_ends_before_it_is_served_gives_its_place_back",
    ),
    "a tenant takes all places by the key": Mutant(
        "boilerhouse.edge.api.shares",
        "            if self._of[keys[1]] >= self.most_of_tenant:",
        "            if not caller.admin and self._of[keys[1]] >= self.most_of_tenant:",
        _SHARES + "test_a_token_takes_a_quarter_and_its_tenant_no_more_by_the_key",
    ),
    "the key takes all places": Mutant(
        "boilerhouse.edge.api.shares",
        "bound, who = most - most // PART,",
        "bound, who = most,",
        _SHARES + "test_the_key_leaves_a_quarter_for_tokens",
    ),
    "agents' triggers are counted all at once": Mutant(
        "boilerhouse.edge.api.handlers.resources",
        "        async with self.services.agents_turn:\n            yield\n",
        "        yield\n",
        "tests/unit/edge/api/test_auth.py::test_an_agent_has_a_limited_number_of_triggers",
    ),
    "warnings go with what is usual": Mutant(
        "boilerhouse.platform.kube.correlation",
        'key = about._replace(reason="")',
        'key = about._replace(reason="", type="")',
        _CORRELATION + "test_one_object_cannot_flood",
    ),
    "the newest Events go first": Mutant(
        "boilerhouse.embedded.apiserver.background.expiry",
        "key=lambda stored: stored.revision, reverse=True)",
        "key=lambda stored: stored.revision)",
        _SWEEPS + "test_the_surplus_of_events_is_the_oldest",
    ),
}
