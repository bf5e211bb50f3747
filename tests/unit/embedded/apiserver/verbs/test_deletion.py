"""What a delete does to an object, decided without a store; and sweeps that survive restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.verbs.deletion import (
    DeleteOptions,
    Gone,
    Kept,
    Unchanged,
    decide,
    finished,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
KINDS = {kind.resource: kind for kind in builtin.kinds()}
POD, CONFIG_MAP, NAMESPACE = KINDS["pods"], KINDS["configmaps"], KINDS["namespaces"]

Body = dict[str, Any]


def pod(
    *, node: str = "n", phase: str = "Running", grace: int | None = 20, **metadata: Any
) -> Body:
    spec: Body = {"nodeName": node} if node else {}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {"metadata": {"name": "p", **metadata}, "spec": spec, "status": {"phase": phase}}


def metadata_after(kind: Kind, body: Body, options: DeleteOptions) -> Body:
    outcome = decide(kind, body, options, NOW)
    assert isinstance(outcome, Kept)
    metadata: Body = outcome.body["metadata"]
    return metadata


def test_a_running_pod_is_given_its_grace() -> None:
    """The time of deletion is the end of the grace; the generation moves on."""
    assert metadata_after(POD, pod(generation=1), DeleteOptions()) == {
        "name": "p",
        "generation": 2,
        "deletionTimestamp": "2026-05-01T12:00:20Z",
        "deletionGracePeriodSeconds": 20,
    }


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (pod(node=""), DeleteOptions()),
        (pod(phase="Succeeded"), DeleteOptions()),
        (pod(phase="Failed"), DeleteOptions(gracePeriodSeconds=30)),
        (pod(), DeleteOptions(gracePeriodSeconds=0)),
        (pod(grace=0), DeleteOptions()),
    ],
)
def test_a_pod_that_needs_no_grace_goes_at_once(body: Body, options: DeleteOptions) -> None:
    """Nothing runs that could use the time, or nobody wants to give it."""
    assert isinstance(decide(POD, body, options, NOW), Gone)


def test_a_pod_without_a_grace_gets_thirty_seconds() -> None:
    metadata = metadata_after(POD, pod(grace=None), DeleteOptions())
    assert metadata["deletionGracePeriodSeconds"] == 30


def test_a_negative_grace_is_one_second() -> None:
    metadata = metadata_after(POD, pod(), DeleteOptions(gracePeriodSeconds=-1))
    assert metadata["deletionGracePeriodSeconds"] == 1


def test_a_second_delete_can_only_shorten_the_grace() -> None:
    """Asked again for more, or for nothing, it stays; for less, it ends earlier."""
    dying = pod(deletionTimestamp="2026-05-01T12:00:20Z", deletionGracePeriodSeconds=20)
    assert decide(POD, dying, DeleteOptions(), NOW) == Unchanged()
    assert decide(POD, dying, DeleteOptions(gracePeriodSeconds=60), NOW) == Unchanged()
    shorter = metadata_after(POD, dying, DeleteOptions(gracePeriodSeconds=5))
    assert shorter["deletionTimestamp"] == "2026-05-01T12:00:05Z"
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert isinstance(decide(POD, dying, DeleteOptions(gracePeriodSeconds=0), NOW), Gone)


def test_finalizers_keep_an_object() -> None:
    """It is marked once, and asking again changes nothing."""
    body: Body = {"metadata": {"name": "a", "finalizers": ["x/y"]}}
    marked = metadata_after(CONFIG_MAP, body, DeleteOptions())
    assert marked["deletionTimestamp"] == "2026-05-01T12:00:00Z"
    assert decide(CONFIG_MAP, {"metadata": marked}, DeleteOptions(), NOW) == Unchanged()
    assert not finished(CONFIG_MAP, {"metadata": marked})
    assert finished(CONFIG_MAP, {"metadata": {**marked, "finalizers": []}})


def test_a_dead_pod_with_a_finalizer_waits_for_it_alone() -> None:
    """Once the grace is zero, the last finalizer takes the Pod with it."""
    dying = pod(
        finalizers=["x/y"], deletionTimestamp="2026-05-01T12:00:20Z", deletionGracePeriodSeconds=20
    )
    assert not finished(POD, {**dying, "metadata": {**dying["metadata"], "finalizers": []}})
    dead = metadata_after(POD, dying, DeleteOptions(gracePeriodSeconds=0))
    assert finished(POD, {**dying, "metadata": {**dead, "finalizers": []}})


@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        (["a/b"], "Orphan", ["a/b", "orphan"]),
        (["a/b"], "Foreground", ["a/b", "foregroundDeletion"]),
        (["orphan"], "Foreground", ["foregroundDeletion"]),
        (["a/b", "foregroundDeletion"], "Background", ["a/b"]),
        (["orphan"], None, ["orphan"]),
    ],
)
def test_the_policy_is_a_finalizer(before: list[str], policy: str | None, after: list[str]) -> None:
    """The collector reads there how the dependents are to be treated."""
    body: Body = {"metadata": {"name": "a", "finalizers": before}}
    options = DeleteOptions(propagationPolicy=policy)
    assert metadata_after(CONFIG_MAP, body, options)["finalizers"] == after


def test_a_namespace_is_held_by_its_content() -> None:
    """It is Terminating until whoever sweeps it lets go."""
    body: Body = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}
    outcome = decide(NAMESPACE, body, DeleteOptions(), NOW)
    assert isinstance(outcome, Kept)
    assert outcome.body["status"] == {"phase": "Terminating"}
    assert finished(NAMESPACE, {**outcome.body, "spec": {}})
