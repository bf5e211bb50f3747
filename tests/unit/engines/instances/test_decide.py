"""What is decided about an instance: its id, its metadata service, its end."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import Child
from boilerhouse.engines.instances import checks
from boilerhouse.engines.instances.decide import READY_LOOK, UNREADY_LOOK, decide
from boilerhouse.engines.instances.machine import INSTANCE, InstancePhase
from boilerhouse.engines.instances.model import ULID, InstanceStatus
from boilerhouse.engines.instances.seen import (
    DeleteObject,
    DeleteVolume,
    EnsureService,
    EnsureStatefulSet,
    MintId,
    Seen,
)
from boilerhouse.engines.instances.ulid import ulid
from tests.unit.engines.instances.seeing import (
    FOREIGN,
    GOING,
    NOW,
    SOUND,
    TAMPERED,
    P,
    instance,
    seen,
    spec,
)


def written(look: Seen) -> InstanceStatus:
    plan = decide(look)
    assert isinstance(plan, WriteStatus), plan
    status: InstanceStatus = plan.status
    return status


def reason(status: InstanceStatus, name: str = "Ready") -> tuple[str, str]:
    found = next(one for one in status.conditions if one.type == name)
    return str(found.status), found.reason


def again(look: Seen) -> object:
    """Decide once more, after the status was written."""
    return decide(replace(look, instance=replace(look.instance, status=written(look))))


def test_an_instance_is_held_first() -> None:
    assert decide(seen(instance(finalizers=()))) == Do((AddFinalizer(),))


def test_an_id_is_made_once() -> None:
    """From the moment and from chance; an id that is there stays."""
    without = replace(spec(), id=None)
    plan = decide(seen(instance(spec=without), chance=12345))
    assert plan == Do((MintId(ulid(NOW, 12345)),))
    assert not isinstance(decide(seen(instance())), Do)


def test_ids_are_ulids_that_sort_by_time() -> None:
    first, later = ulid(NOW, 2**200 - 1), ulid(NOW + timedelta(milliseconds=1), 0)
    assert first < later
    assert re.match(ULID, first) and re.match(ULID, later)
    assert ulid(NOW, 1) != ulid(NOW, 2)
    assert ulid(datetime(2016, 7, 30, 23, 54, 10, 259000, tzinfo=UTC), 0)[:10] == "01ARZ3NDEK"


def test_the_metadata_service_is_made_and_repaired() -> None:
    look = seen(instance(), statefulset=Child(), service=TAMPERED, ready=False)
    assert decide(look) == Do((EnsureService(), EnsureStatefulSet()))


def test_engines_find_it_when_it_is_ready() -> None:
    look = seen(instance(), engines=("a",))
    status = written(look)
    assert (status.phase, status.metadata_ready) == (P.READY, True)
    assert status.metadata_endpoint == "i-metadata.ns.svc.cluster.local:7000"
    assert reason(status) == ("True", "AllComponentsReady")
    assert reason(status, "MetadataReady") == ("True", "Ready")
    assert (status.bound_engines, status.observed_generation) == (1, 3)
    assert again(look) == Wait("Ready", READY_LOOK)


def test_a_service_that_is_another_is_used_as_it_is() -> None:
    look = seen(instance(spec=spec(endpoint="x:1")), statefulset=Child(), ready=False)
    status = written(look)
    assert (status.phase, status.metadata_endpoint) == (P.READY, "x:1")
    assert reason(status, "MetadataReady") == ("True", "External")


@pytest.mark.parametrize(
    ("before", "after"),
    [(P.PROVISIONING, P.PROVISIONING), (P.READY, P.DEGRADED), (P.DEGRADED, P.DEGRADED)],
)
def test_while_it_does_not_answer_engines_do_not_find_it(
    before: InstancePhase, after: InstancePhase
) -> None:
    look = seen(instance(before), ready=False)
    status = written(look)
    assert (status.phase, status.metadata_endpoint) == (after, "")
    assert reason(status) == ("False", "Provisioning")
    plan = again(look)
    assert isinstance(plan, Wait) and plan.again_in == UNREADY_LOOK


def test_a_missing_secret_is_waited_for() -> None:
    """It may come: that is no failure. What runs does not need it any more."""
    missing = ("the Secret pg is not there",)
    look = seen(instance(), statefulset=Child(), ready=False, missing=missing)
    status = written(look)
    assert status.phase == P.PROVISIONING
    assert reason(status) == ("False", "PostgresSecretPreflightFailed")
    assert written(seen(instance(), missing=missing)).phase == P.READY


def test_objects_of_others_are_not_touched() -> None:
    status = written(seen(instance(), statefulset=FOREIGN, ready=False))
    assert reason(status) == ("False", "NameTaken")


@pytest.mark.parametrize("before", [P.PROVISIONING, P.READY, P.DEGRADED])
def test_what_only_another_spec_can_cure_is_failed(before: InstancePhase) -> None:
    """Nothing is tried again, and nothing is taken from engines that use it."""
    of = instance(before, status=InstanceStatus(phase=before, metadata_endpoint="x:1"))
    look = seen(of, faults=("spec.auth: not supported",))
    status = written(look)
    assert (status.phase, status.metadata_endpoint) == (P.FAILED, "x:1")
    assert reason(status) == ("False", "SpecNotUsable")
    assert again(look) == Wait("spec.auth: not supported")


def test_another_spec_is_tried_anew() -> None:
    assert written(seen(instance(P.FAILED))).phase == P.PROVISIONING


def test_an_instance_in_use_cannot_be_deleted() -> None:
    look = seen(instance(P.READY, deleting=True), engines=tuple("abcdefg"))
    status = written(look)
    assert reason(status) == ("False", "DeletionBlocked")
    assert status.detail == "engines still name it: a, b, c, d, e and 2 more"
    assert status.phase == P.READY
    assert isinstance(again(look), Wait)
    few = written(seen(instance(deleting=True), engines=("a",)))
    assert few.detail == "engines still name it: a"
    failed = seen(instance(P.FAILED, deleting=True), engines=("a",))
    plan = again(failed)
    assert isinstance(plan, Wait) and plan.again_in == UNREADY_LOOK


def test_deletion_keeps_the_data() -> None:
    look = seen(instance(deleting=True), volume=SOUND)
    assert decide(look) == Do((DeleteObject("StatefulSet", SOUND), DeleteObject("Service", SOUND)))
    gone = replace(look, statefulset=GOING, service=Child())
    assert decide(gone) == Do((RemoveFinalizer(),))


@pytest.mark.parametrize("volume", [SOUND, FOREIGN])
def test_deletion_takes_the_data_if_that_is_asked_for(volume: Child) -> None:
    """The claim has no owner: it was to stay."""
    of = instance(deleting=True, delete_data=True)
    look = seen(of, statefulset=Child(), service=Child(), volume=volume)
    assert decide(look) == Do((DeleteVolume(volume),))
    for left in (Child(), GOING):
        assert decide(replace(look, volume=left)) == Do((RemoveFinalizer(),))


def test_an_instance_that_is_not_held_goes() -> None:
    look = seen(instance(deleting=True, finalizers=()), statefulset=Child(), service=Child())
    assert decide(look) == Wait("being deleted")


def test_every_phase_can_be_left() -> None:
    assert INSTANCE.terminal == frozenset()


def _container(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "metadata", **fields}]}}}


@pytest.mark.parametrize(
    ("raw", "blamed"),
    [
        ({}, []),
        ({"replicas": 2}, ["spec.metadata.replicas"]),
        (
            {"template": {"spec": {"hostNetwork": True}}},
            ["spec.metadata.template.spec.hostNetwork"],
        ),
        ({"template": {"spec": {"containers": [{"name": "metadata", "image": "x"}]}}}, []),
        (
            {
                "template": {
                    "spec": {"containers": [{"name": "metadata", "env": [], "lifecycle": None}]}
                }
            },
            ["spec.metadata.template.spec.containers[metadata].env"],
        ),
        (
            {
                "endpoint": "x:1",
                "postgres": {"host": "h", "database": "d", "credentialsSecretRef": "s"},
            },
            ["spec.metadata.postgres"],
        ),
    ],
)
def test_faults_of_a_spec(raw: dict[str, Any], blamed: list[str]) -> None:
    found = checks.faults({"metadata": raw, "gateway": {}})
    assert [fault.split(":")[0] for fault in found] == blamed


def test_a_template_that_is_none_is_told() -> None:
    assert [fault.path for fault in checks.template_faults([])] == ["spec.metadata.template"]
