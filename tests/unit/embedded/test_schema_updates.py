"""Updates are judged as a real kube-apiserver judges them: transitions, and what is left alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from boilerhouse.embedded.cel.rules import Rules, unchecked
from boilerhouse.embedded.schemas.schema import Schema
from tests.unit.embedded.schema_cases import root
from tests.unit.embedded.update_cases import OUTCOMES, UPDATES, Update


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.name)
def test_same_outcome_as_the_real_server(case: Update) -> None:
    """The same reasons at the same fields, whether the schema became stricter in between or not."""
    schema, rules = Schema.compile(root(case.after)), Rules.compile(root(case.after))
    old: dict[str, Any] = {"spec": copy.deepcopy(case.old)}
    new: dict[str, Any] = {"spec": copy.deepcopy(case.new)}
    for body in (old, new):
        schema.prune(body)
        schema.default(body)
    causes = schema.validate(new, old)
    skipped = unchecked(causes) if rules else None
    causes += rules.check(new, old) if skipped is None else [skipped]
    assert sorted([cause.reason, cause.field] for cause in causes) == OUTCOMES[case.name]


def test_every_recording_has_its_case() -> None:
    """No recorded answer is left over from a case that is gone."""
    assert sorted(OUTCOMES) == sorted(case.name for case in UPDATES)
