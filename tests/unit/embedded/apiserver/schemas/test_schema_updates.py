"""Updates are judged as a real kube-apiserver judges them: transitions, and what is left alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.cel.rules import Rules, unchecked
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from tests.unit.embedded.apiserver.schemas.schema_cases import root
from tests.unit.embedded.apiserver.schemas.update_cases import OUTCOMES, UPDATES, Update


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


def storable(case: Update) -> bool:
    """Tell whether the old object could have been stored under the schema of today."""
    schema, rules = Schema.compile(root(case.after)), Rules.compile(root(case.after))
    old: dict[str, Any] = {"spec": copy.deepcopy(case.old)}
    schema.prune(old)
    schema.default(old)
    return not (schema.validate(old) or rules.check(old))


STORABLE = [case for case in UPDATES if storable(case)]


@pytest.mark.parametrize("case", STORABLE, ids=lambda case: case.name)
def test_the_same_if_what_is_equal_is_shared(case: Update) -> None:
    """An old object that today's schema and rules accept may be shared into the new one."""
    schema, rules = Schema.compile(root(case.after)), Rules.compile(root(case.after))
    old: dict[str, Any] = {"spec": copy.deepcopy(case.old)}
    new: dict[str, Any] = {"spec": copy.deepcopy(case.new)}
    for body in (old, new):
        schema.prune(body)
        schema.default(body)
    before = copy.deepcopy(old)
    shared = sharing({"spec": copy.deepcopy(case.new)}, old)
    schema.prune(shared, old)
    schema.default(shared, old)
    assert (shared, old) == (new, before)
    assert schema.validate(shared, old, baseline=old) == schema.validate(new, before)
    assert rules.check(shared, old, baseline=True) == rules.check(new, before)


def sharing(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return the same as a patch would have made it: what is equal in maps is the old object."""
    result: dict[str, Any] = {}
    for key, value in new.items():
        before = old.get(key)
        if json.dumps(value) == json.dumps(before):
            result[key] = before
        elif isinstance(value, dict) and isinstance(before, dict):
            result[key] = sharing(value, before)
        else:
            result[key] = value
    return result
