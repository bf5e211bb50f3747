"""The objects of an instance, field by field."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from boilerhouse.engines.instances import build, names
from boilerhouse.engines.instances.model import InstanceStatus
from boilerhouse.engines.names import INSTANCE_FINALIZER
from tests.unit.engines.instances.seeing import ID, P, instance, spec

LABELS = {"firebolt.io/instance": "i", "firebolt.io/component": "metadata"}


def server(**metadata: Any) -> dict[str, Any]:
    body = build.statefulset(instance(spec=spec(**metadata)))
    found: dict[str, Any] = body["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_service_selects_the_metadata_service() -> None:
    body = build.service(instance())
    assert body["metadata"]["name"] == "i-metadata"
    assert body["spec"]["selector"] == LABELS
    assert body["spec"]["ports"][0]["port"] == 7000
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_the_data_stays() -> None:
    """The volume outlives the StatefulSet, and has no owner."""
    body = build.statefulset(instance(spec=spec(storageSize="3Gi")))
    assert body["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    (claim,) = body["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert names.volume("i") == "data-i-metadata-0"


def test_one_pod_that_knows_its_instance() -> None:
    body = build.statefulset(instance())
    assert body["spec"]["replicas"] == 1
    assert body["spec"]["template"]["metadata"]["labels"] == LABELS
    assert server()["env"] == [{"name": "INSTANCE_ID", "value": ID}]


def test_its_postgres() -> None:
    env = server(postgres={"host": "h", "database": "d", "credentialsSecretRef": "s"})["env"]
    assert {"name": "POSTGRES_PORT", "value": "5432"} in env
    assert env[-1]["valueFrom"] == {"secretKeyRef": {"name": "s", "key": "password"}}


def test_its_template() -> None:
    """The image and the resources, and what lies beside the container."""
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"containers": [{"name": "metadata", "image": "own:1"}, {"name": "side"}]},
    }
    body = build.statefulset(instance(spec=spec(template=template)))
    pod = body["spec"]["template"]
    assert pod["metadata"]["labels"] == {"team": "a", **LABELS}
    assert [one["name"] for one in pod["spec"]["containers"]] == ["metadata", "side"]
    assert pod["spec"]["containers"][0]["image"] == "own:1"


def test_a_change_is_seen_by_its_hash() -> None:
    """And made in place, as far as a StatefulSet can be changed."""
    body = build.statefulset(instance())
    assert build.sound_statefulset(instance(), body)
    other = instance(spec=spec(image="other:1"))
    assert not build.sound_statefulset(other, body)
    patch = build.statefulset_patch(other)
    changed = {
        "metadata": {**body["metadata"], **patch["metadata"]},
        "spec": {**body["spec"], **patch["spec"]},
    }
    assert build.sound_statefulset(other, changed)
    assert "volumeClaimTemplates" not in patch["spec"]
    assert not build.sound_statefulset(other, {**changed, "spec": {"replicas": 0}})
    assert not build.sound_statefulset(other, {"metadata": {}, "spec": {}})


def test_patches() -> None:
    as_seen = {"uid": "u", "resourceVersion": "7"}
    assert build.id_patch(instance(), ID) == {"metadata": as_seen, "spec": {"id": ID}}
    assert build.finalizers_patch(instance(finalizers=("o",)), held=True) == {
        "metadata": {**as_seen, "finalizers": ["o", INSTANCE_FINALIZER]}
    }
    assert build.finalizers_patch(instance(), held=False)["metadata"]["finalizers"] is None
    ready = InstanceStatus(phase=P.READY, metadata_ready=True, metadata_endpoint="x")
    assert build.status_patch(instance(), ready)["status"] == {
        "phase": "Ready",
        "metadataReady": True,
        "metadataEndpoint": "x",
        "boundEngines": 0,
    }
    lost = replace(ready, phase=P.DEGRADED, metadata_ready=False, metadata_endpoint="")
    assert build.status_patch(instance(status=ready), lost)["status"]["metadataEndpoint"] is None
