"""What `kubectl get pods` shows: READY, STATUS and RESTARTS out of a Pod's containers.

STATUS is no field. It is the reason of whichever container has the most to say: an init container
that holds up the start, else the first container that waits or ended, else the phase; and
Terminating over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body, Column
from boilerhouse.embedded.apiserver.request.table import NAME, age, age_cell

_NONE = "<none>"


@dataclass(slots=True)
class _Restarts:
    """How often containers restarted, and when one last did."""

    count: int = 0
    last: str = ""

    def add(self, status: Body) -> None:
        self.count += status.get("restartCount", 0)
        ended = status.get("lastState", {}).get("terminated") or {}
        # RFC 3339 in UTC: text order is time order.
        self.last = max(self.last, ended.get("finishedAt") or "")


@dataclass(slots=True)
class _Summary:
    ready: int
    total: int
    reason: str
    restarts: _Restarts


def _summary(pod: Body) -> _Summary:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {
        container["name"]
        for container in spec.get("initContainers", ())
        if container.get("restartPolicy") == "Always"
    }
    reason = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    summary = _Summary(0, len(spec.get("containers", ())) + len(sidecars), reason, _Restarts())
    of_sidecars = _Restarts()
    holding = _walk_init(pod, summary, sidecars, of_sidecars)
    if not holding or _condition(status, "Initialized"):
        summary.restarts = of_sidecars
        _walk_containers(status, summary)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _walk_init(pod: Body, summary: _Summary, sidecars: set[str], apart: _Restarts) -> bool:
    """Look at the init containers; return whether one of them holds up the start."""
    statuses = pod.get("status", {}).get("initContainerStatuses", ())
    for index, one in enumerate(statuses):
        summary.restarts.add(one)
        if one["name"] in sidecars:
            apart.add(one)
        state = one.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended and ended.get("exitCode") == 0:
            continue
        if one["name"] in sidecars and one.get("started"):
            summary.ready += bool(one.get("ready"))
            continue
        if ended:
            summary.reason = "Init:" + _end(ended)
        elif waiting.get("reason", "PodInitializing") != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            count = len(pod.get("spec", {}).get("initContainers", ()))
            summary.reason = f"Init:{index}/{count}"
        return True
    return False


def _walk_containers(status: Body, summary: _Summary) -> None:
    running = False
    for one in reversed(status.get("containerStatuses", ())):
        summary.restarts.add(one)
        state = one.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif ended:
            summary.reason = _end(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if _condition(status, "Ready") else "NotReady"


def _end(ended: Body) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _condition(status: Body, name: str) -> bool:
    return any(
        condition["type"] == name and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )


def _ready(pod: Body, _now: datetime) -> str:
    summary = _summary(pod)
    return f"{summary.ready}/{summary.total}"


def _status(pod: Body, _now: datetime) -> str:
    return _summary(pod).reason


def _restarts(pod: Body, now: datetime) -> str:
    restarts = _summary(pod).restarts
    if restarts.count and restarts.last:
        return f"{restarts.count} ({age(restarts.last, now)} ago)"
    return str(restarts.count)


def _address(pod: Body, _now: datetime) -> str:
    status = pod.get("status", {})
    addresses = status.get("podIPs") or [{"ip": status.get("podIP")}]
    return addresses[0].get("ip") or _NONE


def _node(pod: Body, _now: datetime) -> str:
    return pod.get("spec", {}).get("nodeName") or _NONE


def _nominated(pod: Body, _now: datetime) -> str:
    return pod.get("status", {}).get("nominatedNodeName") or _NONE


def _gates(pod: Body, _now: datetime) -> Any:
    gates = pod.get("spec", {}).get("readinessGates", ())
    if not gates:
        return _NONE
    open_gates = sum(_condition(pod.get("status", {}), gate["conditionType"]) for gate in gates)
    return f"{open_gates}/{len(gates)}"


COLUMNS = (
    NAME,
    Column("Ready", description="Ready containers out of all.", cell=_ready),
    Column("Status", description="What the Pod as a whole is doing.", cell=_status),
    Column("Restarts", description="How often containers restarted.", cell=_restarts),
    Column("Age", description="Time since the Pod was created.", cell=age_cell),
    Column("IP", description="Address of the Pod.", priority=1, cell=_address),
    Column("Node", description="Where the Pod runs.", priority=1, cell=_node),
    Column("Nominated Node", description="Where it may run soon.", priority=1, cell=_nominated),
    Column("Readiness Gates", description="Further conditions.", priority=1, cell=_gates),
)
