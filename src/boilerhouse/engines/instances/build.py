"""The objects of an instance, as plain data. Pure.

service() ─► statefulset(), which keeps its volume: what is in it is not the operator's to lose
"""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.core.difference import difference
from boilerhouse.engines import names as keys
from boilerhouse.engines.instances import names
from boilerhouse.engines.instances.checks import CONTAINER
from boilerhouse.engines.instances.model import RESOURCE, InstanceStatus, Postgres
from boilerhouse.engines.instances.seen import InstanceSeen
from boilerhouse.engines.template.hashes import digest
from boilerhouse.engines.template.merge import Layer, split, under

Body = dict[str, Any]

_USER = 1111
_DATA_PATH = "/var/lib/metadata"


def labels(instance: InstanceSeen) -> Body:
    return {keys.INSTANCE: instance.name, keys.COMPONENT: "metadata"}


def _metadata(instance: InstanceSeen, name: str) -> Body:
    owner = {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "name": instance.name,
        "uid": instance.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": instance.namespace,
        "labels": labels(instance),
        "ownerReferences": [owner],
    }


def service(instance: InstanceSeen) -> Body:
    """Build the Service of the metadata service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(instance, names.metadata(instance.name)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": labels(instance),
            "ports": [
                {"name": "grpc", "port": names.PORT, "targetPort": names.PORT, "protocol": "TCP"}
            ],
        },
    }


def statefulset(instance: InstanceSeen) -> Body:
    """Build the StatefulSet of the metadata service; its hash tells when it must be changed."""
    own = labels(instance)
    name = names.metadata(instance.name)
    spec = {
        "replicas": 1,
        "serviceName": name,
        "selector": {"matchLabels": own},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "template": _template(instance),
        "volumeClaimTemplates": [
            {
                "metadata": {"name": names.VOLUME, "labels": own},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": instance.spec.metadata.storage_size}},
                },
            }
        ],
    }
    metadata = _metadata(instance, name)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata, "annotations": {keys.RENDER_HASH: digest(spec["template"])}},
        "spec": spec,
    }


def statefulset_patch(instance: InstanceSeen) -> Body:
    """Build the merge patch that makes a StatefulSet what it should be, as far as it can change."""
    body = statefulset(instance)
    return {
        "metadata": {"annotations": body["metadata"]["annotations"], "labels": labels(instance)},
        "spec": {"replicas": 1, "template": body["spec"]["template"]},
    }


def sound_statefulset(instance: InstanceSeen, live: Any) -> bool:
    """Whether a live StatefulSet is what it should be: made of the same, and with its one Pod."""
    wanted = statefulset(instance)["metadata"]["annotations"]
    stamps = live["metadata"].get("annotations") or {}
    made_of_the_same = stamps.get(keys.RENDER_HASH) == wanted[keys.RENDER_HASH]
    return bool(made_of_the_same and live["spec"].get("replicas", 1) == 1)


def _template(instance: InstanceSeen) -> Body:
    metadata = instance.spec.metadata
    server: Body = {
        "image": metadata.image,
        "env": [
            {"name": "INSTANCE_ID", "value": instance.spec.id or ""},
            *_postgres(metadata.postgres),
        ],
        "ports": [{"name": "grpc", "containerPort": names.PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": names.PORT}, "periodSeconds": 3},
        "volumeMounts": [{"name": names.VOLUME, "mountPath": _DATA_PATH}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    context = {"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER, "runAsNonRoot": True}
    operators = Layer(pod={"securityContext": context}, server=server)
    whole = under(operators, split(metadata.template, CONTAINER))
    own = {**whole.metadata.get("labels", {}), **labels(instance)}
    containers = [{"name": CONTAINER, **whole.server}, *whole.others]
    return {
        "metadata": {**whole.metadata, "labels": own},
        "spec": {**whole.pod, "enableServiceLinks": False, "containers": containers},
    }


def _postgres(postgres: Postgres | None) -> list[Body]:
    """Tell the service where its PostgreSQL is; without one it keeps its data in its volume."""
    if postgres is None:
        return []
    plain = {
        "POSTGRES_HOST": postgres.host,
        "POSTGRES_PORT": str(postgres.port),
        "POSTGRES_DATABASE": postgres.database,
        "POSTGRES_SCHEMA": postgres.schema,
    }
    secret = postgres.credentials_secret_ref
    return [
        *({"name": name, "value": value} for name, value in plain.items()),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for name, key in (("POSTGRES_USER", "username"), ("POSTGRES_PASSWORD", "password"))
        ),
    ]


def id_patch(instance: InstanceSeen, minted: str) -> Body:
    """Build the merge patch that gives an instance its id."""
    return {"metadata": _as_seen(instance), "spec": {"id": minted}}


def finalizers_patch(instance: InstanceSeen, *, held: bool) -> Body:
    """Build the merge patch that puts our finalizer on, or takes it, and no other, off."""
    others = [one for one in instance.finalizers if one != keys.INSTANCE_FINALIZER]
    wanted = [*others, keys.INSTANCE_FINALIZER] if held else others
    return {"metadata": {**_as_seen(instance), "finalizers": wanted or None}}


def status_patch(instance: InstanceSeen, status: InstanceStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided."""
    changes = difference(_plain(instance.status), _plain(status))
    counters = {"boundEngines": status.bound_engines, "metadataReady": status.metadata_ready}
    return {"metadata": _as_seen(instance), "status": {**changes, **counters}}


def _as_seen(instance: InstanceSeen) -> Body:
    return {"uid": instance.uid, "resourceVersion": instance.version}


def _plain(status: InstanceStatus) -> Body:
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}
