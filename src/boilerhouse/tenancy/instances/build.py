"""The one place where a Pod of ours is built.

WorkloadSpec ─► template() ─► template_hash()           what all instances of a blueprint share
                    │
                    ├─► warm_pod()   for a pool, nobody's yet
                    └─► cold_pod()   for one claim

Beside the tenant's container runs the agent, a native sidecar: it starts first, stops last, and
works when the tenant's container is dead. It alone mounts the token that it is spoken to with, and
it alone writes the identity files, which the tenant's container mounts read-only.

The template hash covers everything here that depends on the workload, so an instance built from an
older blueprint, or by an older release, is told apart and never handed out.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.workloads.model import Health, WorkloadSpec

Body = dict[str, Any]

# Names of containers and volumes, which the agent, exec and logs rely on.
TENANT_CONTAINER = "tenant"
AGENT_CONTAINER = "agent"
IDENTITY_DIR = "/run/boilerhouse"
AGENT_TOKEN_DIR = "/run/boilerhouse-agent"  # noqa: S105  where the token is, not the token
AGENT_STATE_DIR = "/var/lib/boilerhouse-agent"
AGENT_STARTED_PATH = "/started"
AGENT_READY_PATH = "/ready"
RESTORE_VARIABLE = "BOILERHOUSE_RESTORE"
DISK_VARIABLE = "BOILERHOUSE_DISK_GB"
OVERLAY_VOLUMES = "overlay-"  # what the names of their volumes begin with

# CHOWN … FSETID: files of any owner, saved and restored as they were. KILL: freeze the tenant.
_AGENT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL"]
_AGENT_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    # A limit on both, or a quota on limits would refuse the Pod.
    "limits": {"cpu": "1", "memory": "64Mi"},
}


def template_hash(spec: WorkloadSpec, settings: Settings) -> str:
    """Return what tells one blueprint from another: 12 hex digits of all that a Pod gets of it."""
    body = template("", spec, settings)
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:12]


def warm_pod(
    name: str, workload: str, spec: WorkloadSpec, settings: Settings, *, pool: str, owner: Body
) -> Body:
    """Build an instance for a pool. `owner` is the pool's owner reference, gone at adoption."""
    pod = _pod(name, workload, spec, settings)
    pod["metadata"]["labels"] |= {names.POOL: pool, names.POOL_STATUS: names.WARMING}
    pod["metadata"]["annotations"] = {names.SOURCE: "pool"}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def cold_pod(
    name: str,
    workload: str,
    spec: WorkloadSpec,
    settings: Settings,
    *,
    tenant: str,
    claim: str,
    restore: str = "",
) -> Body:
    """Build an instance for one claim, whose reference (`ClaimRef`) it carries from birth.

    With `restore`, the digest of a snapshot, its tenant starts only after a restore. That is said
    to the agent alone and is no part of the blueprint: the template hash stays what it is.
    """
    pod = _pod(name, workload, spec, settings)
    if restore:
        [agent] = pod["spec"]["initContainers"]
        agent["env"] += [{"name": RESTORE_VARIABLE, "value": restore}]
    pod["metadata"]["labels"][names.TENANT] = names.label_value(tenant)
    pod["metadata"]["annotations"] = {
        names.SOURCE: "cold",
        names.CLAIM: claim,
        names.TENANT_ID: tenant,
    }
    return pod


def agent_secret(pod: str, token: str) -> Body:
    """Build the Secret that an agent's token is in."""
    return {
        "metadata": {"name": names.agent_secret_name(pod), "labels": {names.AGENT: "true"}},
        "type": "Opaque",
        "stringData": {"token": token},
        "immutable": True,
    }


def _pod(name: str, workload: str, spec: WorkloadSpec, settings: Settings) -> Body:
    return {
        "metadata": {
            "name": name,
            "labels": {
                names.MANAGED: "true",
                names.WORKLOAD: workload,
                names.TEMPLATE: template_hash(spec, settings),
                names.NETWORK: str(spec.network.access),
            },
        },
        "spec": template(name, spec, settings),
    }


def template(name: str, spec: WorkloadSpec, settings: Settings) -> Body:
    """Build the spec of a Pod; the name matters only for the agent's Secret."""
    overlays = [
        {"name": f"{OVERLAY_VOLUMES}{number}", "mountPath": path}
        for number, path in enumerate(spec.filesystem.overlay_dirs)
    ]
    return {
        "restartPolicy": "Always",  # a crashed process comes back, with its data
        "terminationGracePeriodSeconds": spec.hibernate_window_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,  # the agent freezes and kills the tenant's processes
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_agent(overlays, spec.resources.disk_gb, settings)],
        "containers": [_tenant(spec, overlays)],
        "volumes": [
            {"name": "identity", "emptyDir": {"medium": "Memory"}},
            {"name": "agent-state", "emptyDir": {}},
            {
                "name": "agent-token",
                "secret": {"secretName": names.agent_secret_name(name), "defaultMode": 0o400},
            },
            *({"name": overlay["name"], "emptyDir": {}} for overlay in overlays),
        ],
    }


def _agent(overlays: list[Body], disk: int, settings: Settings) -> Body:
    return {
        "name": AGENT_CONTAINER,
        "image": settings.product_image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["agent"],
        "env": [{"name": DISK_VARIABLE, "value": str(disk)}],
        "restartPolicy": "Always",  # what makes an init container a sidecar
        "ports": [{"name": "agent", "containerPort": names.AGENT_PORT}],
        "startupProbe": {
            "httpGet": {"path": AGENT_STARTED_PATH, "port": names.AGENT_PORT},
            "periodSeconds": 1,
            "failureThreshold": 3600,
        },
        # Not ready: the tenant is frozen, because its disk is full. So the operator hears of it.
        "readinessProbe": {
            "httpGet": {"path": AGENT_READY_PATH, "port": names.AGENT_PORT},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 2,
        },
        "resources": _AGENT_RESOURCES,
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": _AGENT_CAPABILITIES},
        },
        "volumeMounts": [
            {"name": "identity", "mountPath": IDENTITY_DIR},
            {"name": "agent-state", "mountPath": AGENT_STATE_DIR},
            {"name": "agent-token", "mountPath": AGENT_TOKEN_DIR, "readOnly": True},
            *({**overlay, "mountPath": f"/overlay{overlay['mountPath']}"} for overlay in overlays),
        ],
    }


def _tenant(spec: WorkloadSpec, overlays: list[Body]) -> Body:
    ports = [expose.guest for expose in spec.network.expose]
    probe = _readiness(spec.health, ports)
    memory, disk = spec.resources.memory_mb, spec.resources.disk_gb
    vcpus = f"{max(1, round(spec.resources.vcpus * 1000))}m"
    container: Body = {
        "name": TENANT_CONTAINER,
        "image": spec.image.ref or "",
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": {
                "cpu": vcpus,
                "memory": f"{memory}Mi",
                "ephemeral-storage": f"{disk}Gi",
            },
            # No limit on storage: kubelet evicts at it, and an eviction loses the files. The agent
            # freezes the tenant at diskGb instead (node/agent/disk/guard.py).
            "limits": {"cpu": vcpus, "memory": f"{memory}Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "identity", "mountPath": IDENTITY_DIR, "readOnly": True},
            *overlays,
        ],
        "ports": [{"containerPort": port} for port in ports],
        **_entrypoint(spec),
    }
    if probe is not None:
        container["readinessProbe"] = probe
    return container


def _entrypoint(spec: WorkloadSpec) -> Body:
    given = spec.entrypoint
    if given is None:
        return {}
    wanted: Body = {
        "command": [given.cmd] if given.cmd else [],
        "args": list(given.args),
        "workingDir": given.workdir or "",
        # Sorted: a server may hand a map back in another order, and the hash must not change.
        "env": [{"name": name, "value": value} for name, value in sorted(given.env.items())],
    }
    return {key: value for key, value in wanted.items() if value}


def _readiness(health: Health | None, ports: list[int]) -> Body | None:
    if health is None:
        if not ports:
            return None
        return {"tcpSocket": {"port": ports[0]}, "periodSeconds": 1, "failureThreshold": 3}
    timing = {
        "periodSeconds": health.interval_seconds,
        "failureThreshold": health.unhealthy_threshold,
    }
    if health.http_get is not None:
        check: Body = {"httpGet": {"path": health.http_get.path, "port": health.http_get.port}}
    else:
        assert health.exec is not None, "a rule of the model: exactly one of httpGet and exec"
        check = {"exec": {"command": list(health.exec.command)}}
    return {**check, **timing}
