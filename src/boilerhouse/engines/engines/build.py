"""The objects of an engine, as plain data. Pure.

Made, number ─┬─► configmap() ─► headless() ─► budget() ─► statefulset()
              └─► service()      selects a generation; the only object that ever changes
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from boilerhouse.core.difference import difference
from boilerhouse.engines import names as keys
from boilerhouse.engines.engines import drift, names
from boilerhouse.engines.engines.model import RESOURCE, EngineStatus
from boilerhouse.engines.engines.resolve import Made, image_of
from boilerhouse.engines.engines.seen import EngineSeen
from boilerhouse.engines.fields import Storage
from boilerhouse.engines.profile import (
    ENGINE_ID,
    ENGINE_NODES,
    GRACE,
    INSTANCE_ENDPOINT,
    INSTANCE_ID,
    CommandPolicy,
    ConfigFormat,
    Probe,
    Profile,
)
from boilerhouse.engines.template.config import merged, replaced
from boilerhouse.engines.template.merge import Layer, under
from boilerhouse.engines.template.rules import CONFIG_VOLUME, DATA_VOLUME, RUNTIME_VOLUME

Body = dict[str, Any]

# Of the code below. It is told by each StatefulSet, and never a reason for another one.
RENDERER = "1"

_MOVING_TAGS = ("latest", "dev")


def labels(engine: EngineSeen, generation: int) -> Body:
    """Return what tells a generation's objects from all others."""
    return {keys.ENGINE: engine.name, keys.GENERATION: str(generation)}


def _metadata(engine: EngineSeen, name: str, own_labels: Body) -> Body:
    owner = {
        "apiVersion": RESOURCE.api_version,
        "kind": RESOURCE.kind,
        "name": engine.name,
        "uid": engine.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": engine.namespace,
        "labels": own_labels,
        "ownerReferences": [owner],
    }


def configmap(engine: EngineSeen, made: Made, generation: int) -> Body:
    """Build the ConfigMap of a generation; without a file, it is empty."""
    data = {}
    if made.profile.config.format == ConfigFormat.YAML:
        data[made.profile.config.file_name] = yaml.safe_dump(
            _config(engine, made, generation), sort_keys=True, allow_unicode=True
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(
            engine, names.config(engine.name, generation), labels(engine, generation)
        ),
        "data": data,
    }


def _config(engine: EngineSeen, made: Made, generation: int) -> Body:
    hosts = names.hosts(engine.name, engine.namespace, generation, made.replicas)
    values = {
        INSTANCE_ID: made.instance_id,
        INSTANCE_ENDPOINT: made.endpoint,
        ENGINE_ID: engine.name,
        ENGINE_NODES: [{"host": host} for host in hosts],
        GRACE: f"{made.profile.told_grace}s",
    }
    base: Body = replaced(made.profile.config.base, values)
    return merged(base, made.config)


def headless(engine: EngineSeen, made: Made, generation: int) -> Body:
    """Build the Service that gives each Pod of a generation a name, before it is ready too."""
    own = labels(engine, generation)
    name = names.headless(engine.name, generation)
    return _service(engine, made.profile, name, own, own, unready=True)


def service(engine: EngineSeen, profile: Profile, generation: int) -> Body:
    """Build the Service that clients use, with ready Pods of one generation behind it."""
    own = {keys.ENGINE: engine.name}
    selected = labels(engine, generation)
    return _service(engine, profile, names.service(engine.name), own, selected, unready=False)


def _service(
    engine: EngineSeen, profile: Profile, name: str, own: Body, selected: Body, *, unready: bool
) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(engine, name, own),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": unready,
            "selector": selected,
            "ports": [
                {"name": p.name, "port": p.port, "targetPort": p.port, "protocol": "TCP"}
                for p in profile.ports
            ],
        },
    }


def budget(engine: EngineSeen, generation: int) -> Body:
    """Build the budget that lets evictions take one Pod of a generation at a time."""
    own = labels(engine, generation)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(engine, names.budget(engine.name, generation), own),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": own}},
    }


def stamps(made: Made) -> Body:
    """Return what a StatefulSet says about what it was made of."""
    told = {
        keys.CONFIG_HASH: made.config_hash,
        keys.CLASS_HASH: made.class_hash,
        keys.RENDER_HASH: made.wanted.hash,
        keys.RENDER_INPUTS: drift.written(made.wanted.inputs),
        keys.RENDERER: RENDERER,
    }
    return {name: value for name, value in told.items() if value}


def statefulset(engine: EngineSeen, made: Made, generation: int) -> Body:
    """Build the StatefulSet of a generation. It is never changed, only replaced by another's."""
    own = labels(engine, generation)
    name = names.statefulset(engine.name, generation)
    metadata = _metadata(engine, name, own)
    spec: Body = {
        "replicas": made.replicas,
        "serviceName": names.headless(engine.name, generation),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": own},
        # The disks are a cache of one generation: they go with it.
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": _template(engine, made, generation),
    }
    if claims := _claims(made.storage, own):
        spec["volumeClaimTemplates"] = claims
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata, "annotations": stamps(made)},
        "spec": spec,
    }


def _template(engine: EngineSeen, made: Made, generation: int) -> Body:
    whole = under(_operators(engine, made, generation), made.template)
    server = {"name": made.profile.container, **whole.server}
    metadata = dict(whole.metadata)
    metadata["labels"] = {**metadata.get("labels", {}), **labels(engine, generation)}
    return {
        "metadata": metadata,
        "spec": {
            **whole.pod,
            "enableServiceLinks": False,
            "containers": [server, *whole.others],
        },
    }


def _operators(engine: EngineSeen, made: Made, generation: int) -> Layer:
    """Return the operator's own layer of the template."""
    profile = made.profile
    return Layer(
        pod={
            "terminationGracePeriodSeconds": profile.termination_grace_period_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": profile.user,
                "runAsGroup": profile.user,
                "fsGroup": profile.user,
                "fsGroupChangePolicy": "OnRootMismatch",
            },
            "volumes": list(_volumes(engine, made, generation)),
        },
        server=_server(made),
    )


def _server(made: Made) -> Body:
    profile = made.profile
    image = image_of(made)
    server: Body = {
        "image": image,
        "imagePullPolicy": pull_policy(image),
        "ports": [
            {"name": p.name, "containerPort": p.port, "protocol": "TCP"} for p in profile.ports
        ],
        "env": [
            {"name": v.name, "valueFrom": {"fieldRef": _label(v.pod_label)}}
            if v.pod_label
            else {"name": v.name, "value": v.value}
            for v in profile.env
        ],
        "volumeMounts": _mounts(profile),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if profile.command_policy == CommandPolicy.OWNED:
        server["command"] = list(profile.command)
    for name, probe in (
        ("readinessProbe", profile.probes.ready),
        ("livenessProbe", profile.probes.live),
        ("startupProbe", profile.probes.startup),
    ):
        if probe is not None:
            server[name] = _probe(probe)
    return server


def _label(name: str) -> Body:
    return {"apiVersion": "v1", "fieldPath": f"metadata.labels['{name}']"}


def _probe(probe: Probe) -> Body:
    asked: Body = {"tcpSocket": {"port": probe.port}}
    if probe.path is not None:
        asked = {"httpGet": {"path": probe.path, "port": probe.port, "scheme": "HTTP"}}
    return {
        **asked,
        "initialDelaySeconds": probe.initial_delay_seconds,
        "periodSeconds": probe.period_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "failureThreshold": probe.failure_threshold,
    }


def _mounts(profile: Profile) -> list[Body]:
    mounts: list[Body] = [
        {"name": DATA_VOLUME, "mountPath": profile.data_path},
        {"name": RUNTIME_VOLUME, "mountPath": profile.runtime_path},
    ]
    if profile.config.format == ConfigFormat.NONE:
        return mounts
    file = {
        "name": CONFIG_VOLUME,
        "mountPath": profile.config.mount_path,
        "subPath": profile.config.file_name,
        "readOnly": True,
    }
    return [file, *mounts]


def _volumes(engine: EngineSeen, made: Made, generation: int) -> list[Body]:
    volumes: list[Body] = []
    if made.profile.config.format == ConfigFormat.YAML:
        name = names.config(engine.name, generation)
        volumes.append({"name": CONFIG_VOLUME, "configMap": {"name": name}})
    if made.storage.persistent_volume_claim is None:
        volumes.append({"name": DATA_VOLUME, **_data(made.storage)})
    return [*volumes, {"name": RUNTIME_VOLUME, "emptyDir": {}}]


def _data(storage: Storage) -> Body:
    if storage.host_path is not None:
        return {"hostPath": msgspec.to_builtins(storage.host_path)}
    return {"emptyDir": {} if storage.empty_dir is None else msgspec.to_builtins(storage.empty_dir)}


def _claims(storage: Storage, own: Body) -> list[Body]:
    claim = storage.persistent_volume_claim
    if claim is None:
        return []
    spec: Body = {
        "accessModes": [str(mode) for mode in claim.access_modes],
        "resources": {"requests": {"storage": claim.size}},
    }
    if claim.storage_class_name is not None:
        spec["storageClassName"] = claim.storage_class_name
    return [{"metadata": {"name": DATA_VOLUME, "labels": own}, "spec": spec}]


def pull_policy(image: str) -> str:
    """Return how an image is kept up to date: one whose tag moves is asked for at each start."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].rpartition(":")
    return "Always" if not colon or tag in _MOVING_TAGS else "IfNotPresent"


def finalizers_patch(engine: EngineSeen, *, held: bool) -> Body:
    """Build the merge patch that puts our finalizer on, or takes it, and no other, off."""
    others = [one for one in engine.finalizers if one != keys.ENGINE_FINALIZER]
    wanted = [*others, keys.ENGINE_FINALIZER] if held else others
    return {"metadata": {**_as_seen(engine), "finalizers": wanted or None}}


def status_patch(engine: EngineSeen, status: EngineStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided.

    Numbers are always in it: the first generation is 0, which is left out as a default.
    """
    numbers = {
        "currentGeneration": status.current_generation,
        "activeGeneration": status.active_generation,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
    }
    changes = difference(_plain(engine.status), _plain(status))
    return {"metadata": _as_seen(engine), "status": {**changes, **numbers}}


def _as_seen(engine: EngineSeen) -> Body:
    return {"uid": engine.uid, "resourceVersion": engine.version}


def _plain(status: EngineStatus) -> Body:
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}
