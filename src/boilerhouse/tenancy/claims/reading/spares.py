"""Warm Pods that wait for a tenant: first in, first out, per workload and template.

Pod informer ─► Spares ─► reserve() ─► the intent of a claim

A Pod that was reserved is not offered again in this process, so three hundred claims at one moment
choose three hundred Pods. Other processes have their own lists; when two choose the same Pod, the
binding patch of one fails and it chooses again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct

from boilerhouse.core import names
from boilerhouse.core.clock import Clock
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.tenancy.claims.intent import Intent

RESERVED_FOR = 30.0  # seconds; a claim that did not bind by then has died, or chosen another


class _Kind(Struct, frozen=True):
    workload: str
    template: str


class _Reserved(Struct, frozen=True):
    spare: Intent
    kind: _Kind
    until: float


class Spares:
    """`healthy` tells whether a node is; `chosen` whether some claim names the Pod already."""

    def __init__(
        self,
        pods: Informer[Pod],
        clock: Clock,
        *,
        healthy: Callable[[str], bool],
        chosen: Callable[[str], bool],
    ) -> None:
        self._pods = pods
        self._clock = clock
        self._healthy = healthy
        self._chosen = chosen
        # By name, the longest ready first, behind them what was reserved.
        self._waiting: dict[_Kind, dict[str, Pod]] = {}
        self._kinds: dict[str, _Kind] = {}  # where a waiting Pod is
        self._reserved: dict[Hashable, _Reserved] = {}  # by who reserved it
        self._holders: dict[str, Hashable] = {}  # by name of the Pod
        pods.subscribe(self._changed)

    def reserve(self, holder: Hashable, workload: str, template: str) -> Intent | None:
        """Return a warm Pod for `holder`, the same one when asked again; None if there is none."""
        held = self._reserved.get(holder)
        kind = _Kind(workload, template)
        if held is not None:
            current = held.until > self._clock.monotonic()
            if held.kind == kind and current and self._waits(held.spare.pod, kind):
                return held.spare
            self.give_back(holder)
        waiting = self._waiting.get(kind, {})
        for name, pod in waiting.items():
            if self._free(name) and self._waits(name, kind) and self._healthy(pod.spec.node_name):
                # To the end: in a burst nobody has to look past all that is reserved already.
                waiting[name] = waiting.pop(name)
                spare = Intent(name, pod.metadata.uid)
                until = self._clock.monotonic() + RESERVED_FOR
                self._reserved[holder] = _Reserved(spare, kind, until)
                self._holders[name] = holder
                return spare
        return None

    def give_back(self, holder: Hashable) -> None:
        """End a reservation; the Pod, if it still waits, is offered again."""
        held = self._reserved.pop(holder, None)
        if held is not None:
            self._holders.pop(held.spare.pod, None)

    def count(self, workload: str, template: str) -> int:
        """Return how many warm Pods wait, reserved ones included."""
        return len(self._waiting.get(_Kind(workload, template), ()))

    def _waits(self, name: str, kind: _Kind) -> bool:
        """Whether a Pod is still to be had: what we did to it ourselves is told a moment later."""
        listed = self._waiting.get(kind, {}).get(name)
        if listed is None:
            return False
        pod = self._pods.get(listed.metadata.namespace, name)
        if pod is None or pod.metadata.uid != listed.metadata.uid:
            return False
        return pod is listed or _waits_as(pod) == kind

    def _free(self, name: str) -> bool:
        # The cheap question first: in a burst most of what waits is reserved already.
        holder = self._holders.get(name)
        if holder is not None:
            if self._reserved[holder].until > self._clock.monotonic():
                return False
            self.give_back(holder)
        return not self._chosen(name)

    def _changed(self, change: Change[Pod]) -> None:
        name, pod = change.key.name, change.new
        kind = None if pod is None else _waits_as(pod)
        before = self._kinds.get(name)
        if before is not None and before != kind:
            del self._kinds[name]
            self._waiting[before].pop(name)
            if not self._waiting[before]:
                del self._waiting[before]
        if pod is not None and kind is not None:
            self._kinds[name] = kind
            self._waiting.setdefault(kind, {})[name] = pod  # keeps its place
        elif name in self._holders:
            self.give_back(self._holders[name])


def _waits_as(pod: Pod) -> _Kind | None:
    """Say what a Pod can be handed out as; None if it cannot (now)."""
    labels, meta = pod.metadata.labels, pod.metadata
    waits = (
        names.CLAIM not in meta.annotations
        and meta.deletion_timestamp is None
        and names.POOL in labels
        and labels.get(names.POOL_STATUS) == names.READY
        and pod.status.phase == "Running"
        and pod.ready
    )
    if not waits:
        return None
    return _Kind(labels.get(names.WORKLOAD, ""), labels.get(names.TEMPLATE, ""))
