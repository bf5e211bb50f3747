"""Pods as Kubernetes tells them, made into what decisions may know of an instance.

kube Pod ─► instance() ─► InstanceSeen

The names of reasons and conditions that kubelet and the scheduler use are known here only.
"""

from __future__ import annotations

from boilerhouse.core import names
from boilerhouse.platform.kube.kinds import ContainerStatus, Pod
from boilerhouse.tenancy.instances.build import (
    AGENT_CONTAINER,
    OVERLAY_VOLUMES,
    RESTORE_VARIABLE,
    TENANT_CONTAINER,
)
from boilerhouse.tenancy.instances.seen import ClaimRef, InstanceSeen, RestoredSeen

# Why an image does not arrive, as kubelet says it of a waiting container.
_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
_CUT_OFF = "Unknown"  # how a container ended that ran when its node went down
# Why else a container waits, without anything being wrong.
_NO_TROUBLE = _IMAGE_REASONS | {"ContainerCreating", "PodInitializing", ""}


def instance(pod: Pod) -> InstanceSeen:
    """Make of a Pod what decisions may know of it."""
    meta, status = pod.metadata, pod.status
    assert meta.creation_timestamp is not None, "a stored object has a creation time"
    labels, noted = meta.labels, meta.annotations
    containers, sidecars = status.container_statuses, status.init_container_statuses
    tenant = _named(TENANT_CONTAINER, containers)
    agent = _named(AGENT_CONTAINER, sidecars)
    restarts = sum([container.restart_count for container in containers])
    restored = RestoredSeen.parse(noted.get(names.RESTORED, ""))
    # Of all others there is nothing to tell.
    ailing = [one for one in (*sidecars, *containers) if one.state.waiting or one.restart_count]
    trouble = _trouble(ailing, restored)
    return InstanceSeen(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        workload=labels.get(names.WORKLOAD, ""),
        template=labels.get(names.TEMPLATE, ""),
        created_at=meta.creation_timestamp,
        claim=ClaimRef.parse(noted.get(names.CLAIM, "")),
        tenant=noted.get(names.TENANT_ID, ""),
        pool=labels.get(names.POOL, ""),
        pool_status=labels.get(names.POOL_STATUS, ""),
        source=noted.get(names.SOURCE, ""),
        node=pod.spec.node_name,
        ip=status.pod_ip,
        port=_first_port(pod),
        running=status.phase == "Running",
        ready=pod.ready,
        terminating=meta.deletion_timestamp is not None,
        grace=meta.deletion_grace_period_seconds or 0,
        ended=_ended(pod),
        unschedulable=_unschedulable(pod),
        image_failure=_image_failure(ailing),
        trouble=trouble,
        backing_off=any(_backs_off(container) for container in ailing),
        unready="" if pod.ready or trouble else _unready(pod),
        restarts=restarts,
        crashed=restarts > 0 and any(_crashed(container) for container in containers),
        agent_restarts=0 if agent is None else agent.restart_count,
        overlays=any(volume.name.startswith(OVERLAY_VOLUMES) for volume in pod.spec.volumes),
        awaits=_awaited(pod),
        restored=restored,
        container="" if tenant is None else tenant.container_id,
        tenant_runs=tenant is not None and tenant.state.running is not None,
        # A node that says nothing of its sidecars says at least that the Pod runs.
        agent_runs=status.phase == "Running" if agent is None else agent.state.running is not None,
        agent_ready=agent is None or agent.ready or not agent.started,
    )


def _named(name: str, containers: list[ContainerStatus]) -> ContainerStatus | None:
    for container in containers:
        if container.name == name:
            return container
    return None


def _crashed(container: ContainerStatus) -> bool:
    """Whether a container ended by itself before it began anew.

    One that was cut off together with its node did not, and the node that comes back counts from
    the beginning: such a container is as good as a new one.
    """
    last = container.last_state.terminated
    return container.restart_count > 0 and (last is None or last.reason != _CUT_OFF)


def _awaited(pod: Pod) -> str:
    for container in pod.spec.init_containers:
        if container.name == AGENT_CONTAINER:
            for variable in container.env:
                if variable.name == RESTORE_VARIABLE:
                    return variable.value
    return ""


def ports_of(pod: Pod) -> list[tuple[int, int]]:
    """Return every port that the tenant exposes, with the one under which it is reached."""
    moved = {}
    for pair in pod.metadata.annotations.get(names.PORTS, "").split(","):
        guest, _, reached_at = pair.partition(":")
        if guest.isdecimal() and reached_at.isdecimal():
            moved[int(guest)] = int(reached_at)
    return [
        (port.container_port, moved.get(port.container_port, port.container_port))
        for container in pod.spec.containers
        if container.name == TENANT_CONTAINER
        for port in container.ports
    ]


def _first_port(pod: Pod) -> int:
    ports = ports_of(pod)
    return ports[0][1] if ports else 0


def _ended(pod: Pod) -> str:
    status = pod.status
    if status.phase not in ("Failed", "Succeeded"):
        return ""
    return _sentence(status.phase, status.reason, status.message)


def _unschedulable(pod: Pod) -> str:
    found = pod.status.condition("PodScheduled")
    if found is None or found.status != "False":
        return ""
    return found.message or found.reason


def _image_failure(containers: list[ContainerStatus]) -> str:
    for container in containers:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in _IMAGE_REASONS:
            return _sentence(container.name, waiting.reason, waiting.message)
    return ""


def crashes(pod: Pod) -> str:
    """Say how often the tenant's program has ended by itself; nothing if it never did.

    That it was ended to be given its files is no crash: `restored` names that container.
    """
    tenant = _named(TENANT_CONTAINER, pod.status.container_statuses)
    if tenant is None:
        return ""
    return _crashes(tenant, RestoredSeen.parse(pod.metadata.annotations.get(names.RESTORED, "")))


def restarts_of(pod: Pod) -> int:
    """Count the restarts of an instance, without the one that brought its tenant's files."""
    count = sum(container.restart_count for container in pod.status.container_statuses)
    restored = RestoredSeen.parse(pod.metadata.annotations.get(names.RESTORED, ""))
    return max(0, count - _ours(restored))


def _ours(restored: RestoredSeen | None) -> int:
    return 1 if restored is not None and restored.container else 0


def _crashes(container: ContainerStatus, restored: RestoredSeen | None) -> str:
    ended = container.state.terminated or container.last_state.terminated
    if ended is None or ended.reason == _CUT_OFF:
        return ""
    tenant = container.name == TENANT_CONTAINER
    if tenant and restored is not None and ended.container_id == restored.container != "":
        return ""
    count = container.restart_count - (_ours(restored) if tenant else 0)
    count = max(1, count + (container.state.running is None))
    how = "crashed" if ended.exit_code else "exited"
    said = "" if ended.reason in ("Error", "Completed") else ended.reason
    what = _sentence(f"exit code {ended.exit_code}", said, ended.message)
    who = "" if tenant else f"{container.name} "
    return f"{who}{how} {count} time{'' if count == 1 else 's'}: {what}"


def _backs_off(container: ContainerStatus) -> bool:
    waiting = container.state.waiting
    return waiting is not None and waiting.reason == "CrashLoopBackOff"


def _trouble(containers: list[ContainerStatus], restored: RestoredSeen | None) -> str:
    for container in containers:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in _NO_TROUBLE:
            crashed = _crashes(container, restored) if _backs_off(container) else ""
            return crashed or _sentence(container.name, waiting.reason, waiting.message)
    for container in containers:
        if container.restart_count and not container.ready:
            crashed = _crashes(container, restored)
            if crashed:
                return crashed
    return ""


def _unready(pod: Pod) -> str:
    """Say which probe a Pod waits for all of whose containers run; nothing if there is none."""
    containers = pod.status.container_statuses
    if pod.status.phase != "Running" or any(one.state.running is None for one in containers):
        return ""
    for container in pod.spec.containers:
        probe = container.readiness_probe
        if probe is not None:
            how = "exec"
            if probe.http_get is not None:
                how = f"http {probe.http_get.port}{probe.http_get.path}"
            elif probe.tcp_socket is not None:
                how = f"tcp {probe.tcp_socket.port}"
            return f"its readiness probe ({how}) has not succeeded yet"
    return ""


def _sentence(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
