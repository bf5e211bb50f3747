"""What was read of an engine becomes what is decided on. Pure: the half of reading without I/O.

Reads ─► resolve() ─► each object against what it should be ─► Seen

`Reads` must hold every object that has the engine's label or one of its names; an object that is
not in it is absent, so the names in the status are asked for by name, not from a cache. What the
Service selects decides where traffic goes: it is read from the server for each pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from boilerhouse.engines import names as keys
from boilerhouse.engines.children import Child, judged, matches
from boilerhouse.engines.engines import build, drift, names
from boilerhouse.engines.engines.model import EngineSpec, EngineStatus
from boilerhouse.engines.engines.ready import Event, newest
from boilerhouse.engines.engines.resolve import (
    ClassFound,
    InstanceFound,
    Made,
    Resolved,
    resolve,
)
from boilerhouse.engines.engines.seen import (
    DrainSeen,
    EngineSeen,
    GenerationSeen,
    Seen,
    ServiceSeen,
)
from boilerhouse.engines.template.rules import Bounds

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodRead:
    """A Pod of an engine, as far as readiness goes."""

    name: str
    owner: str  # UID of its controller
    ready: bool  # phase Running and condition Ready
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """Everything that was read for one pass over one engine."""

    now: datetime
    name: str
    namespace: str
    uid: str
    version: str
    generation: int
    spec: EngineSpec
    status: EngineStatus
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting: bool
    klass: ClassFound | None
    instance: InstanceFound | None
    objects: tuple[Body, ...]  # StatefulSets, Services, ConfigMaps and PodDisruptionBudgets
    pods: tuple[PodRead, ...] = ()
    drain: DrainSeen | None = None
    events: tuple[Event, ...] = ()  # Warnings of the current generation's StatefulSet
    bounds: Bounds = field(default_factory=Bounds)


def assemble(reads: Reads) -> Seen:
    """Judge what was read."""
    resolved = resolve(
        reads.name,
        reads.spec,
        reads.klass,
        reads.instance,
        reads.bounds,
        reads.annotations.get(keys.RESTART, ""),
    )
    engine = EngineSeen(
        name=reads.name,
        namespace=reads.namespace,
        uid=reads.uid,
        version=reads.version,
        generation=reads.generation,
        replicas=reads.spec.replicas,
        status=reads.status,
        policy=resolved.policy,
        abort=names.generation_of(reads.annotations.get(keys.ABORT)),
        finalizers=reads.finalizers,
        deleting=reads.deleting,
    )
    found = {(str(one["kind"]), str(one["metadata"]["name"])): one for one in reads.objects}
    judge = _Judge(engine, resolved, found, reads.pods)
    status = reads.status
    current = found.get(
        ("StatefulSet", names.statefulset(reads.name, status.current_generation)), {}
    )
    stamps = current.get("metadata", {}).get("annotations", {})
    return Seen(
        now=reads.now,
        engine=engine,
        instance_fault=resolved.instance_fault,
        instance_needed=resolved.instance_needed,
        faults=resolved.faults,
        wanted=None if resolved.made is None else resolved.made.wanted,
        known_profile=resolved.profile is not None,
        stamped=drift.read(stamps.get(keys.RENDER_INPUTS)),
        generations=tuple(judge.generation(number) for number in _numbers(status, reads.objects)),
        service=judge.service(),
        drain=reads.drain,
        warned=newest(reads.events),
    )


def _numbers(status: EngineStatus, objects: Iterable[Body]) -> list[int]:
    """Return every generation that the status names or of which something is there."""
    labelled = (
        names.generation_of(one["metadata"].get("labels", {}).get(keys.GENERATION))
        for one in objects
    )
    named = (
        status.current_generation,
        status.active_generation,
        status.draining_generation,
    )
    return sorted({one for one in (*labelled, *named) if one is not None and one >= 0})


@dataclass(frozen=True, slots=True)
class _Judge:
    """Holds each object against what it should be, as far as that is known."""

    engine: EngineSeen
    resolved: Resolved
    found: Mapping[tuple[str, str], Body]
    pods: tuple[PodRead, ...]

    def generation(self, number: int) -> GenerationSeen:
        engine = self.engine
        made = self._made(number)
        live = self.found.get(("StatefulSet", names.statefulset(engine.name, number)))
        statefulset = judged(live, self.engine.uid, lambda body: self._as_stamped(body, number))
        owned = [
            pod
            for pod in self.pods
            if statefulset.uid and pod.owner == statefulset.uid and not pod.terminating
        ]
        return GenerationSeen(
            number=number,
            statefulset=statefulset,
            headless=self._found(
                "Service",
                names.headless(engine.name, number),
                None if made is None else build.headless(engine, made, number),
            ),
            config=self._found(
                "ConfigMap",
                names.config(engine.name, number),
                None if made is None else build.configmap(engine, made, number),
            ),
            budget=self._found(
                "PodDisruptionBudget",
                names.budget(engine.name, number),
                build.budget(engine, number),
            ),
            pods=len(owned),
            ready=sum(pod.ready for pod in owned),
        )

    def service(self) -> ServiceSeen:
        engine, profile = self.engine, self.resolved.profile
        live = self.found.get(("Service", names.service(engine.name)))
        if live is None:
            return ServiceSeen()
        selector = live["spec"].get("selector") or {}
        selects = names.generation_of(selector.get(keys.GENERATION))
        if selects is None or selector != build.labels(engine, selects):
            selects = None
        wanted = None
        if profile is not None and selects is not None:
            wanted = build.service(engine, profile, selects)
        child = judged(live, self.engine.uid, lambda body: wanted is None or matches(body, wanted))
        return ServiceSeen(child, selects)

    def _made(self, number: int) -> Made | None:
        """Return what a generation was made of, if that is what is asked for now."""
        made, status = self.resolved.made, self.engine.status
        if made is None:
            return None
        known = {
            status.active_generation: status.active_render_hash,
            status.current_generation: status.current_render_hash,
        }
        return made if known.get(number) == made.wanted.hash else None

    def _as_stamped(self, live: Body, number: int) -> bool:
        """Whether a StatefulSet is what its number stands for, and as it was written.

        Its spec was never changed if its generation is still the first: the operator only makes
        StatefulSets, it never changes one.
        """
        status = self.engine.status
        hashes = {
            status.active_generation: status.active_render_hash,
            status.current_generation: status.current_render_hash,
        }
        expected = hashes.get(number, "")
        if not expected:  # nothing is known about it: an old one, or one of a lost status
            return True
        stamps = live["metadata"].get("annotations") or {}
        made = self._made(number)
        public = (keys.CONFIG_HASH, keys.CLASS_HASH)
        told = {} if made is None else build.stamps(made)
        return (
            live["metadata"].get("generation", 1) <= 1
            and stamps.get(keys.RENDER_HASH) == expected
            and (made is None or all(stamps.get(key) == told.get(key) for key in public))
        )

    def _found(self, kind: str, name: str, wanted: Body | None) -> Child:
        live = self.found.get((kind, name))
        return judged(live, self.engine.uid, lambda body: wanted is None or matches(body, wanted))
