"""What a Pod's status says, from what the kubelet knows: pure.

    ContainerFacts, PodFacts ─► pod_status() ─► the `status` that is written if it changed

Words, reasons and the rules of phases and conditions are those of a real kubelet, since operators
(ours too) read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from boilerhouse.core.clock import rfc3339

Body = dict[str, Any]
Role = Literal["init", "sidecar", "main"]
OURS = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
LIMITS_ENFORCED = "LimitsEnforced"


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Terminated:
    exit_code: int
    reason: str
    started_at: datetime | None
    finished_at: datetime
    message: str = ""
    container_id: str = ""
    signal: int | None = None


State = Waiting | Running | Terminated


@dataclass(slots=True)
class ContainerFacts:
    """One container now. Written by its loop, read here."""

    name: str
    image: str
    role: Role = "main"
    state: State = field(default_factory=Waiting)
    last: Terminated | None = None
    image_id: str = ""
    container_id: str = ""
    restart_count: int = 0
    started: bool = False  # its startup probe has succeeded, or it has none
    ready: bool = False
    finished: bool = False  # it will not be started again

    @property
    def done(self) -> bool:
        """Whether it ended well, for good: what an init container is for."""
        state = self.state
        return self.finished and isinstance(state, Terminated) and state.exit_code == 0

    @property
    def initialized(self) -> bool:
        return self.started if self.role == "sidecar" else self.done


@dataclass(slots=True)
class PodFacts:
    """One Pod now."""

    host_ip: str
    started_at: datetime
    containers: list[ContainerFacts]  # init containers first, in their order
    restart_policy: str = "Always"
    ip: str = ""
    # Set once nothing will run any more: the Pod's last word.
    failed: tuple[str, str] | None = None  # reason, message
    limits_unenforced: str | None = None  # why, for a Pod that has limits

    @property
    def initial(self) -> list[ContainerFacts]:
        return [one for one in self.containers if one.role != "main"]

    @property
    def main(self) -> list[ContainerFacts]:
        return [one for one in self.containers if one.role == "main"]


def pod_status(facts: PodFacts, before: Mapping[str, Any], now: datetime) -> Body:
    """Return the part of the status that is the kubelet's; `before` is the one in the API."""
    current = phase(facts)
    conditions = [
        _merged(wanted, before.get("conditions", ()), now) for wanted in _conditions(facts, current)
    ]
    status: Body = {
        "phase": current,
        "conditions": conditions,
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": rfc3339(facts.started_at),
        "containerStatuses": [container_status(one) for one in facts.main],
    }
    if facts.initial:
        status["initContainerStatuses"] = [container_status(one) for one in facts.initial]
    if facts.ip:
        status |= {"podIP": facts.ip, "podIPs": [{"ip": facts.ip}]}
    if facts.failed is not None:
        status["reason"], status["message"] = facts.failed
    return status


def phase(facts: PodFacts) -> str:
    """Say where in its life a Pod is."""
    if facts.failed is not None:
        return "Failed"
    once = facts.restart_policy != "Always"
    for one in facts.initial:
        if one.role == "init" and one.finished and not one.done:
            return "Failed"
        if not one.initialized and not _ran(facts.main):
            return "Pending"
    main = facts.main
    if any(isinstance(one.state, Waiting) and one.last is None for one in main):
        return "Pending"
    if once and all(one.finished for one in main):
        return "Succeeded" if all(one.done for one in main) else "Failed"
    return "Running"


def _ran(containers: Iterable[ContainerFacts]) -> bool:
    """Tell whether the Pod got past its init containers: then a sidecar's fall does not undo it."""
    return any(one.container_id for one in containers)


def container_status(one: ContainerFacts) -> Body:
    running = isinstance(one.state, Running)
    status: Body = {
        "name": one.name,
        "image": one.image,
        "imageID": one.image_id,
        "ready": one.done if one.role == "init" else running and one.ready,
        "started": running and one.started,
        "restartCount": one.restart_count,
        "state": _state(one.state),
        "lastState": {} if one.last is None else _state(one.last),
    }
    if one.container_id:
        status["containerID"] = one.container_id
    return status


def _state(state: State) -> Body:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        case Running(started_at):
            return {"running": {"startedAt": rfc3339(started_at)}}
    ended: Body = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "finishedAt": rfc3339(state.finished_at),
    }
    if state.started_at is not None:
        ended["startedAt"] = rfc3339(state.started_at)
    if state.message:
        ended["message"] = state.message
    if state.container_id:
        ended["containerID"] = state.container_id
    if state.signal is not None:
        ended["signal"] = state.signal
    return {"terminated": ended}


def _conditions(facts: PodFacts, current: str) -> list[Body]:
    if current in ("Succeeded", "Failed"):
        reason = "PodCompleted" if current == "Succeeded" else "PodFailed"
        over = {"reason": reason}
        initialized = _condition("Initialized", current == "Succeeded" or _initialized(facts), over)
        ready = [_condition(name, False, over) for name in ("ContainersReady", "Ready")]
    else:
        initialized = _condition("Initialized", _initialized(facts), _uninitialized(facts))
        unready = _unready(facts)
        ready = [
            _condition(name, not unready, _not_ready(unready))
            for name in ("ContainersReady", "Ready")
        ]
    conditions = [
        _condition("PodScheduled", True, {}),
        _condition("PodReadyToStartContainers", bool(facts.ip) and current == "Running", {}),
        initialized,
        *ready,
    ]
    if facts.limits_unenforced is not None:
        why = {"reason": "NoCgroup", "message": facts.limits_unenforced}
        conditions.append(_condition(LIMITS_ENFORCED, False, why))
    return conditions


def _initialized(facts: PodFacts) -> bool:
    return all(one.initialized for one in facts.initial) or _ran(facts.main)


def _uninitialized(facts: PodFacts) -> Body:
    names = [one.name for one in facts.initial if not one.initialized]
    return {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(names)}]",
    }


def _unready(facts: PodFacts) -> list[str]:
    return [
        one.name
        for one in facts.containers
        if one.role != "init" and not (isinstance(one.state, Running) and one.ready)
    ]


def _not_ready(names: Sequence[str]) -> Body:
    return {
        "reason": "ContainersNotReady",
        "message": f"containers with unready status: [{' '.join(names)}]",
    }


def _condition(name: str, met: bool, otherwise: Mapping[str, Any]) -> Body:
    """Make a condition; reason and message are said only where it is not met."""
    condition: Body = {"type": name, "status": "True" if met else "False"}
    return condition if met else {**condition, **otherwise}


def _merged(wanted: Body, before: Iterable[Mapping[str, Any]], now: datetime) -> Body:
    """Keep the time of the last transition unless this is one."""
    for old in before:
        if old.get("type") == wanted["type"] and old.get("status") == wanted["status"]:
            return {**wanted, "lastTransitionTime": old.get("lastTransitionTime") or rfc3339(now)}
    return {**wanted, "lastTransitionTime": rfc3339(now)}


def clearing(status: Body, before: Mapping[str, Any]) -> Body:
    """Return the patch that leaves no reason behind of a condition that has none any more.

    Conditions are merged one by one, so what is merely not said would stay.
    """
    old = {one.get("type"): one for one in before.get("conditions", ())}
    conditions = []
    for wanted in status["conditions"]:
        said = old.get(wanted["type"], {})
        stale = [key for key in ("reason", "message") if said.get(key) and key not in wanted]
        conditions.append({**wanted, **dict.fromkeys(stale)} if stale else wanted)
    return {**status, "conditions": conditions}
