"""Built-in kinds default, refuse and change as a real kube-apiserver did."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.schemas.schema import NOTHING
from boilerhouse.embedded.apiserver.verbs import preparing
from boilerhouse.embedded.fields.patch import merge
from boilerhouse.platform.kube.status import ApiError
from tests.unit.embedded.apiserver.builtin.builtin_cases import CASES, OUTCOMES, Case

KINDS = {(kind.api_version, kind.kind): kind for kind in builtin.kinds()}
NOW = "2026-01-01T00:00:00Z"


def outcome(case: Case, *, shared: bool = False) -> dict[str, Any]:
    """Do what the verbs do, without a store and what only a namespace can say.

    `shared`: what is changed shares the rest with what was stored, as after a patch.
    """
    body = copy.deepcopy(case.body)
    kind = KINDS[body["apiVersion"], body["kind"]]
    if kind.namespaced:
        body["metadata"]["namespace"] = "default"
    try:
        kind.schema.prune(body)
        preparing.prepare_new(kind, body, NOW)
        preparing.default(kind, body)
        preparing.check_new(kind, body)
        if case.change is not None:
            part: preparing.Part = "status" if case.part else ""
            old, before = body, copy.deepcopy(body)
            seen = old if shared else NOTHING
            changed = merge(old if shared else before, case.change)
            changed["metadata"] = dict(changed["metadata"])
            kind.schema.prune(changed, seen)
            body = preparing.prepare_change(kind, changed, old if shared else before, part, seen)
            preparing.check_change(kind, body, old, part, seen)
            preparing.settle_generation(kind, body, old)
            assert not shared or old == before
    except ApiError as error:
        causes = sorted({(cause.reason, cause.field) for cause in error.causes})
        return {"code": error.status_code, "causes": causes}
    for name in ("uid", "creationTimestamp", "namespace"):
        body["metadata"].pop(name, None)
    return {"stored": body}


# Where we mean to differ: what ours is, and why.
DIFFERENT: dict[str, tuple[str, Any]] = {
    "pod: restart policy of a container": (
        "the real server drops what a feature gate turns off; we refuse it",
        [("FieldValueForbidden", "spec.containers[0].restartPolicy")],
    ),
    "statefulset: no selector": (
        "rules run on objects of the right shape only",
        [("FieldValueRequired", "spec.selector")],
    ),
}


def recorded(case: Case) -> dict[str, Any]:
    if case.name in DIFFERENT:
        return {"code": 422, "causes": DIFFERENT[case.name][1]}
    found = OUTCOMES[case.name]
    if "causes" in found:
        # A real server names some fields twice, with a sentence for each rule.
        return found | {"causes": sorted({(reason, field) for reason, field in found["causes"]})}
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_recorded(case: Case) -> None:
    """An object ends up as the real server stored it, or is refused for the same fields."""
    assert outcome(case) == recorded(case)


CHANGES = [case for case in CASES if case.change is not None]


@pytest.mark.parametrize("case", CHANGES, ids=[case.name for case in CHANGES])
def test_recorded_changes_of_what_is_shared(case: Case) -> None:
    """Nothing is different if a changed object shares the rest with the stored one, which stays."""
    assert outcome(case, shared=True) == recorded(case)
