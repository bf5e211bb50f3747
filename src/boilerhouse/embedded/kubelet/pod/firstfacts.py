"""What is known of a Pod before it runs here: from its status in the API and its own directory.

    Pod, DIR/pods/<uid>/logs ─► first_facts() ─► PodFacts

A Pod that ran before we were restarted begins another life: its restart count goes up, and its last
state says why. The logs on disk know best how many lives there were, since a status may not have
been written when we were killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import parse_time
from boilerhouse.embedded.kubelet.containers.launch import Machine, last_attempt
from boilerhouse.embedded.kubelet.objects.status import ContainerFacts, PodFacts, Role, Terminated
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped
from boilerhouse.platform.kube.kinds import Dynamic

Body = Mapping[str, Any]
_CUT_OFF = "Boilerhouse was restarted"


def first_facts(
    pod: Dynamic, directory: Path, machine: Machine, sandboxes: Bubblewrapped
) -> PodFacts:
    """Return what to say of a Pod that is about to run."""
    now = machine.clock.now()
    told = pod.status.get("startTime")
    before = {
        one["name"]: one
        for group in ("initContainerStatuses", "containerStatuses")
        for one in pod.status.get(group, ())
    }
    containers = [
        _container(one, _role(one, group), before.get(one["name"], {}), directory, now)
        for group in ("initContainers", "containers")
        for one in pod.spec.get(group, ())
    ]
    return PodFacts(
        host_ip=machine.host_ip,
        started_at=parse_time(told) if told else now,
        containers=containers,
        restart_policy=pod.spec.get("restartPolicy", "Always"),
        limits_unenforced=sandboxes.limits_unenforced if _limited(pod.spec) else None,
    )


def _role(container: Body, group: str) -> Role:
    if group == "containers":
        return "main"
    return "sidecar" if container.get("restartPolicy") == "Always" else "init"


def _container(
    container: Body, role: Role, before: Body, directory: Path, now: datetime
) -> ContainerFacts:
    lives = last_attempt(directory, container["name"])
    counted = int(before.get("restartCount", 0)) if before.get("containerID") else None
    last = max((number for number in (lives, counted) if number is not None), default=None)
    return ContainerFacts(
        container["name"],
        container.get("image", ""),
        role,
        last=_last(before, now),
        restart_count=0 if last is None else last + 1,
    )


def _last(before: Body, now: datetime) -> Terminated | None:
    """Return how the last life ended: as it was told, or, if it was still running, with us."""
    state = before.get("state", {})
    if "running" in state:
        return Terminated(
            255,
            "Unknown",
            _moment(state["running"].get("startedAt")),
            now,
            _CUT_OFF,
            before.get("containerID", ""),
        )
    ended = state.get("terminated") or before.get("lastState", {}).get("terminated")
    if ended is None:
        return None
    return Terminated(
        int(ended.get("exitCode", 0)),
        ended.get("reason", ""),
        _moment(ended.get("startedAt")),
        _moment(ended.get("finishedAt")) or now,
        ended.get("message", ""),
        ended.get("containerID", ""),
        ended.get("signal"),
    )


def _moment(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def _limited(spec: Body) -> bool:
    return any(
        name in one.get("resources", {}).get("limits", {})
        for one in spec.get("containers", ())
        for name in ("cpu", "memory")
    )
