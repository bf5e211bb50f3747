"""One Pod from its admission to its end.

    admitted ─► sandbox, volumes ─► init containers in order, sidecars stay ─► main containers
    asked to go ─► main containers, then sidecars in reverse: asked, given time, killed ─► closed

The worker sequences loops (`containerloop.py`), keeps the Pod's facts and has them written
(`reporting.py`). A Pod that ran before we were restarted goes through the same door: its volumes
are there, its containers begin another life.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import structlog

from boilerhouse.core.supervision import supervised
from boilerhouse.embedded.fields.podspec import containers_of
from boilerhouse.embedded.fields.quantity import Quantity
from boilerhouse.embedded.kubelet.backoff import Backoff
from boilerhouse.embedded.kubelet.container import Network, SandboxError
from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop
from boilerhouse.embedded.kubelet.containers.launch import (
    Launched,
    Launcher,
    Machine,
    ReadyContainer,
)
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.objects.environment import PodView
from boilerhouse.embedded.kubelet.objects.references import Missing, References
from boilerhouse.embedded.kubelet.objects.status import ContainerFacts, Waiting
from boilerhouse.embedded.kubelet.pod.ending import Ending
from boilerhouse.embedded.kubelet.pod.firstfacts import first_facts
from boilerhouse.embedded.kubelet.pod.neighbours import PodNeighbours
from boilerhouse.embedded.kubelet.pod.ports import Ports
from boilerhouse.embedded.kubelet.pod.reporting import Reporter
from boilerhouse.embedded.kubelet.pod.turns import Turns
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox
from boilerhouse.embedded.kubelet.volumes.leftovers import Leftovers
from boilerhouse.embedded.kubelet.volumes.persistentclaims import PersistentClaims
from boilerhouse.embedded.kubelet.volumes.quotas import Quotas
from boilerhouse.embedded.kubelet.volumes.volumes import Volumes, mounts_of
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events, Type
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, NotFound

Body = Mapping[str, Any]
TERMINAL = ("Succeeded", "Failed")
_EVICTION_SECONDS = 1.0  # as a real kubelet has it: what is used too much is to be freed now

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodDependencies:
    """What all Pods share."""

    client: Client
    machine: Machine
    sandboxes: Bubblewrapped
    memory: Memory
    claims: PersistentClaims
    directory: Path  # one directory per Pod is in it
    capacity: Mapping[str, Quantity]
    events: Events
    turns: Turns
    leftovers: Leftovers
    quotas: Quotas
    ports_annotation: str
    network_label: str


class PodWorker:
    """One Pod: `run` it once, `update` it with what the API says, tell it when it is `gone`."""

    def __init__(self, dependencies: PodDependencies, pod: Dynamic) -> None:
        self.pod = pod
        self.directory = dependencies.directory / pod.metadata.uid
        self.facts = first_facts(pod, self.directory, dependencies.machine, dependencies.sandboxes)
        self.loops: list[ContainerLoop] = []
        self._neighbours = PodNeighbours(self.loops)
        self.sandbox: PodSandbox | None = None
        self._dependencies = dependencies
        meta = pod.metadata
        self._references = References(dependencies.client, meta.namespace)
        self._volumes = Volumes(
            self.directory, meta.uid, dependencies.memory, dependencies.claims, self._references
        )
        self._reporter = Reporter(
            dependencies.client,
            dependencies.machine.clock,
            (meta.namespace, meta.name, meta.uid),
            pod.status,
            lambda: self.facts,
            lambda: dependencies.turns.piece(self.pod.metadata),
        )
        self._launcher: Launcher | None = None
        self._ports = Ports(dependencies.client, self._say, dependencies.ports_annotation)
        self._tasks: dict[ContainerLoop, asyncio.Task[None]] = {}
        self._ending = Ending()
        self._evicted = asyncio.Event()
        self._gone = False
        self._leaving = False

    @property
    def finished(self) -> bool:
        """Whether nothing of it will run again."""
        return self.pod.status.get("phase") in TERMINAL

    def update(self, pod: Dynamic) -> None:
        """Take what the API says now."""
        self.pod = pod
        self._renew(pod.spec)
        if pod.metadata.deletion_timestamp is not None:
            self._ending.ask(float(pod.metadata.deletion_grace_period_seconds or 0))

    def gone(self) -> None:
        """The Pod is not in the API any more: end it at once."""
        self._gone = True
        self._reporter.silence()
        self._ending.ask(0.0)

    def leave(self, grace: float) -> None:
        """End its processes and leave the rest: we go, the Pod stays."""
        self._leaving = True
        self._reporter.silence()
        self._ending.ask(grace)

    def way_to(self, port: int) -> Callable[[int], Awaitable[socket.socket]] | None:
        """Return how to connect to one of its ports, which may be a built-in container's."""
        if self.sandbox is None or self._launcher is None:
            return None
        listeners = self._launcher.listeners
        return listeners.connect if port in listeners.ports else self.sandbox.connect

    def reject(self, reason: str, message: str) -> None:
        """Do not admit it: it ends as Failed before anything of it ran."""
        self.facts.failed = (reason, message)

    def evict(self, why: str) -> None:
        """End its processes and let it be Failed: it used more than it may."""
        if not self._ending.asked.is_set():
            self.facts.failed = ("Evicted", why)
            self._say("Warning", "Evicted", why)
            self._evicted.set()

    async def run(self) -> None:
        """Live and die; returns once nothing is left of the Pod, or we leave."""
        if self.finished:
            self._reporter.silence()  # its last word was said in an earlier life of ours
        reporting = asyncio.create_task(
            supervised(f"status of Pod {self.pod.metadata.name}", self._reporter.run)
        )
        try:
            await self._live_and_end()
            if not self._ending.asked.is_set():  # it came to its end by itself
                self._reporter.changed(urgent=True)
                await self._ending.asked.wait()
            if self._leaving:
                await self._volumes.leave(self.pod.spec)
                return
            if not self._gone:
                await self._delete()
        finally:
            reporting.cancel()
            await asyncio.wait({reporting})
        async with self._dependencies.turns.cleaning():
            await self._clean()

    async def _live_and_end(self) -> None:
        if self.finished or self._ending.asked.is_set() or self.facts.failed is not None:
            return
        life = asyncio.create_task(self._live(), name=f"pod {self.pod.metadata.name}")
        ending = asyncio.create_task(self._ending.asked.wait())
        evicted = asyncio.create_task(self._evicted.wait())
        try:
            await asyncio.wait({life, ending, evicted}, return_when=asyncio.FIRST_COMPLETED)
            if not life.done():
                life.cancel()
            await asyncio.wait({life})
            if not life.cancelled() and life.exception() is not None:
                log.error("kubelet.pod_failed", pod=self.pod.metadata.name,
                          exc_info=life.exception())  # fmt: skip
                self.facts.failed = ("KubeletError", str(life.exception()))
        finally:
            ending.cancel()
            evicted.cancel()
        grace = _EVICTION_SECONDS if self._evicted.is_set() else self._grace
        await self._ending.stop(self._tasks, grace)
        await self._close()

    async def _live(self) -> None:
        self._reporter.changed()
        async with self._dependencies.turns.turn(self.pod.metadata):
            main = await self._begin_all()
        if main:
            await asyncio.wait(main)

    async def _begin_all(self) -> list[asyncio.Task[None]]:
        """Start the containers, in their order; return the main ones once each has started once."""
        self._launcher = await self._prepare()
        self.facts.ip = self._launcher.listeners.address
        initial = list(self._containers("initContainers"))
        main = [self._loop(*one) for one in self._containers("containers")]
        if all(facts.role == "sidecar" for _, facts in initial):
            for loop in main:
                loop.prepare_next()  # beside the sidecars, which may take long to start
        for container, facts in initial:
            loop = self._loop(container, facts)
            task = self._begin(loop)
            if facts.role == "sidecar":
                await _either(loop.started.wait(), task)
            else:
                await asyncio.wait({task})
                if not facts.done:
                    return []
        tasks = [self._begin(loop) for loop in main]
        begun = zip(main, tasks, strict=True)
        await asyncio.gather(*(_either(loop.started.wait(), task) for loop, task in begun))
        return tasks

    def _containers(self, group: str) -> Iterable[tuple[Body, ContainerFacts]]:
        facts = {one.name: one for one in self.facts.containers}
        return [(one, facts[one["name"]]) for one in self.pod.spec.get(group, ())]

    def _renew(self, spec: Body) -> None:
        """Go on with the images that containers have now: the one thing that may change."""
        wanted = {one["name"]: one for one in containers_of(spec)}
        for loop in self.loops:
            container = wanted[loop.facts.name]
            changed = container.get("image") != loop.container.get("image")
            if changed and not loop.facts.finished:
                loop.replace(container)

    def _loop(self, container: Body, facts: ContainerFacts) -> ContainerLoop:
        policy = self.facts.restart_policy
        if facts.role == "sidecar":
            policy = "Always"
        elif facts.role == "init" and policy == "Always":
            policy = "OnFailure"
        sandboxed = self._dependencies.machine.built_in(container) is None
        loop = ContainerLoop(
            container,
            facts,
            restart=policy,
            grace=self._grace,
            start=self._start,
            clock=self._dependencies.machine.clock,
            changed=self._reporter.changed,
            said=self._say,
            attempt=facts.restart_count,
            standstill=self._neighbours.standstill if sandboxed else None,
            prepare=self._prepare_next if sandboxed else None,
        )
        self.loops.append(loop)
        return loop

    def _begin(self, loop: ContainerLoop) -> asyncio.Task[None]:
        task = asyncio.create_task(loop.run(), name=f"container {loop.facts.name}")
        task.add_done_callback(_tell_failure)
        self._tasks[loop] = task
        return task

    @property
    def _grace(self) -> float:
        return float(self.pod.spec.get("terminationGracePeriodSeconds", 30))

    async def _start(self, container: Body, attempt: int) -> Launched:
        assert self._launcher is not None, "containers start after the sandbox"
        launched = await self._launcher.start(container, attempt)
        if launched.running is None:
            self._ports.reached |= self._launcher.listeners.ports
            await self._ports.tell(self.pod.metadata)
        return launched

    async def _prepare_next(self, container: Body, attempt: int) -> ReadyContainer | None:
        assert self._launcher is not None, "containers start after the sandbox"
        return await self._launcher.prepare(container, attempt)

    async def _prepare(self) -> Launcher:
        """Make sandbox and volumes, as often as it takes."""
        patience = Backoff(first=1.0, longest=60.0)
        while True:
            try:
                return await self._try_prepare()
            except SandboxError as error:
                self._all_wait("FailedCreatePodSandBox", str(error))
            except (Missing, OSError, ApiError) as error:
                self._all_wait("FailedMount", str(error))
            await asyncio.sleep(patience.again())

    async def _try_prepare(self) -> Launcher:
        pod, dependencies = self.pod, self._dependencies
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if pod.spec.get("shareProcessNamespace") and len(self._sandboxed()) > 1:
            raise SandboxError("several containers in one process namespace are not supported here")
        if self.sandbox is None:
            self.sandbox = await dependencies.sandboxes.create(
                pod.metadata.uid, network=self._network()
            )
            await self._ports.forward(self.sandbox, self._sandboxed())
            await self._ports.tell(pod.metadata)
        volumes = await self._volumes.prepare(pod.spec, self._sandboxed_volumes(), self.sandbox.own)
        quota = await dependencies.quotas.of_accompanied(
            self.sandbox.host_uid, pod.spec, self._sandboxed(), volumes, self.directory
        )
        view = PodView(
            pod.metadata,
            pod.spec,
            self.sandbox.address,
            dependencies.machine.host_ip,
            dependencies.capacity,
        )
        return Launcher(
            dependencies.machine,
            view,
            self.directory,
            self.sandbox,
            volumes,
            self._references,
            self._neighbours,
            lambda: self._leaving,
            quota,
        )

    def _network(self) -> Network:
        wanted = self.pod.metadata.labels.get(self._dependencies.network_label, "none")
        if wanted not in ("none", "unrestricted"):
            raise SandboxError(f"network access {wanted!r} is not supported here")
        return cast(Network, wanted)

    def _sandboxed(self) -> list[Body]:
        every = containers_of(self.pod.spec)
        return [one for one in every if self._dependencies.machine.built_in(one) is None]

    def _sandboxed_volumes(self) -> set[str]:
        return {mount["name"] for one in self._sandboxed() for mount in mounts_of(one)}

    def _all_wait(self, reason: str, message: str) -> None:
        for one in self.facts.containers:
            one.state = Waiting(reason, message)
        self._say("Warning", reason, message)
        self._reporter.changed(urgent=True)

    def _say(self, kind: Type, reason: str, message: str) -> None:
        self._dependencies.events.tell(PODS, self.pod, reason, message, type=kind)

    async def _close(self) -> None:
        await asyncio.gather(*(loop.close() for loop in self.loops))
        if self.sandbox is not None:
            await self.sandbox.close()
            self.sandbox = None

    async def _delete(self) -> None:
        """Take the Pod out of the API: it was asked to go, and nothing of it runs any more."""
        meta = self.pod.metadata
        patience = Backoff(first=0.2, longest=30.0)
        while not self._gone:
            try:
                async with self._dependencies.turns.piece(meta):
                    await self._dependencies.client.delete(
                        PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace=0
                    )
                return
            except NotFound:
                return
            except ApiError as error:
                if error.code == 409:  # another Pod has that name by now
                    return
                log.warning("kubelet.pod_undeleted", pod=meta.name, error=str(error))
                await asyncio.sleep(patience.again())

    async def _clean(self) -> None:
        """Remove what the Pod had on this machine."""
        meta = self.pod.metadata
        self._volumes.let_go()
        for one in self.facts.containers:
            name = f"{meta.namespace}/{meta.name}/{one.name}"
            self._dependencies.machine.images.let_go(name)
        await self._dependencies.leftovers.clean(meta.uid)


async def _either(one: Coroutine[Any, Any, object], other: asyncio.Task[None]) -> None:
    """Wait for the first of two; only the first is ended with the waiting."""
    waiting = asyncio.ensure_future(one)
    try:
        await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("kubelet.container_failed", task=task.get_name(), exc_info=task.exception())
