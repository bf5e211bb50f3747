"""Rules mean here what they mean on a real kube-apiserver."""

from __future__ import annotations

import pytest

from boilerhouse.embedded.apiserver.cel.rules import Rules, RulesRefused
from tests.unit.embedded.apiserver.cel.cel_cases import NOT_HERE, OBJECT, OUTCOMES, RULES, SPEC


def outcome(rule: str) -> str:
    """Return `refused`, `true`, `false` or `error` for one rule on the table's object."""
    spec = {**SPEC, "x-kubernetes-validations": [{"rule": rule}]}
    try:
        rules = Rules.compile({"type": "object", "properties": {"spec": spec}})
    except RulesRefused:
        return "refused"
    causes = rules.check({"spec": OBJECT})
    if not causes:
        return "true"
    return "error" if " evaluating rule: " in causes[0].message else "false"


@pytest.mark.parametrize("rule", RULES)
def test_same_outcome_as_the_real_server(rule: str) -> None:
    """A rule is refused, holds, fails or breaks down as recorded; some are refused only here."""
    assert outcome(rule) == ("refused" if rule in NOT_HERE else OUTCOMES[rule])


@pytest.mark.parametrize("rule", sorted(NOT_HERE))
def test_what_is_missing_is_refused_by_name(rule: str) -> None:
    """What a real server would run and we cannot is refused at install, and the cause names it."""
    spec = {**SPEC, "x-kubernetes-validations": [{"rule": rule}]}
    with pytest.raises(RulesRefused, match="not supported here"):
        Rules.compile({"type": "object", "properties": {"spec": spec}})


def test_every_recording_has_its_rule() -> None:
    """No recorded answer is left over from a rule that is gone."""
    assert sorted(OUTCOMES) == sorted(RULES)
