"""How much of the machine Pods have asked for, and whether one more fits: pure.

spec ─► requests() ─► Ledger ─► lacking() ─► bind | the scheduler's words
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from boilerhouse.embedded.fields.podspec import pod_total
from boilerhouse.embedded.fields.quantity import ZERO, Quantity

NAMES = ("cpu", "memory", "ephemeral-storage")
_NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


@dataclass(frozen=True, slots=True)
class Requests:
    """What a Pod needs, or what there is; `pods` is one for a Pod."""

    cpu: Quantity = ZERO
    memory: Quantity = ZERO
    storage: Quantity = ZERO
    pods: int = 1

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.storage + other.storage,
            self.pods + other.pods,
        )

    def __sub__(self, other: Requests) -> Requests:
        return Requests(
            self.cpu - other.cpu,
            self.memory - other.memory,
            self.storage - other.storage,
            self.pods - other.pods,
        )


NOTHING = Requests(pods=0)


def requests(spec: Mapping[str, Any]) -> Requests:
    """Return what a Pod needs at its hungriest moment."""
    total = pod_total(spec, "requests")
    cpu, memory, storage = (total.get(name, ZERO) for name in NAMES)
    return Requests(cpu, memory, storage)


class Ledger:
    """Who has been given what."""

    def __init__(self, capacity: Requests) -> None:
        self.capacity = capacity
        self._given: dict[str, Requests] = {}
        self._used = NOTHING

    def __contains__(self, uid: str) -> bool:
        return uid in self._given

    def give(self, uid: str, wanted: Requests) -> None:
        """Note what a Pod has; again does no harm."""
        if uid not in self._given:
            self._given[uid] = wanted
            self._used += wanted

    def take_back(self, uid: str) -> bool:
        """Forget a Pod; say whether that made room."""
        had = self._given.pop(uid, None)
        if had is not None:
            self._used -= had
        return had is not None

    def lacking(self, wanted: Requests) -> list[str]:
        """Return what there is too little of, by its name; `pods` if there are too many."""
        left = self.capacity - self._used
        pairs = (
            ("pods", left.pods, wanted.pods),
            ("cpu", left.cpu, wanted.cpu),
            ("memory", left.memory, wanted.memory),
            ("ephemeral-storage", left.storage, wanted.storage),
        )
        # Who asks for nothing of a thing does not mind that there is none.
        return [name for name, there, asked in pairs if asked and _short(there, asked)]


def _short(there: Quantity | int, asked: Quantity | int) -> bool:
    return there < asked  # type: ignore[operator]  # both are numbers, or both quantities


def tolerates(spec: Mapping[str, Any], taint: str) -> bool:
    """Whether a Pod may come to a node with this taint, which has no value and keeps Pods away."""
    return any(
        one.get("effect", "") in ("", "NoSchedule")
        and one.get("key", "") in ("", taint)
        and (one.get("operator", "Equal") == "Exists" or (one.get("key") and not one.get("value")))
        for one in spec.get("tolerations", ())
    )


def unschedulable(lacking: Iterable[str], *, cordoned: bool, taint: str = "") -> str:
    """Say why a Pod has no node, as the scheduler of a real cluster of one node does."""
    if cordoned or taint:
        why = "were unschedulable" if cordoned else f"had untolerated taint {{{taint}: }}"
        return (
            f"0/1 nodes are available: 1 node(s) {why}. preemption: 0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling."
        )
    words = ["1 Too many pods" if name == "pods" else f"1 Insufficient {name}" for name in lacking]
    return f"0/1 nodes are available: {', '.join(words)}. {_NO_VICTIMS}"
