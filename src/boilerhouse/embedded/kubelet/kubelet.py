"""The embedded kubelet: Pods of the API become processes of this machine.

    Pod informer ─┬─► without a node ─► Scheduler ─► bound ─┐
                  └─► on our node ──────────────────────────┴─► PodWorker ─► status, deletion
    API server ─► Node port: logs, exec, attach, proxy ─► PodWorker

Everything that must survive us is in the API or in DIR/pods/<uid>; the processes do not. Started
again, the kubelet finds the Pods of its node and runs each with what it had.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.core.supervision import supervised
from boilerhouse.embedded.fields.podspec import containers_of
from boilerhouse.embedded.kubelet.containers.builtin_images import Builtins
from boilerhouse.embedded.kubelet.containers.launch import Machine
from boilerhouse.embedded.kubelet.images.images import ImageStore
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.kernel.spreading import spread
from boilerhouse.embedded.kubelet.node.diskpressure import DiskPressure
from boilerhouse.embedded.kubelet.node.evicting import Evictions
from boilerhouse.embedded.kubelet.node.nodeobject import (
    HOST_IP,
    NODE,
    NodeObject,
    amounts,
    capacity,
)
from boilerhouse.embedded.kubelet.node.scheduler import Scheduler
from boilerhouse.embedded.kubelet.objects.room import Ledger, Requests, requests
from boilerhouse.embedded.kubelet.pod.pod import TERMINAL, PodDependencies, PodWorker
from boilerhouse.embedded.kubelet.pod.turns import Priority, Turns
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped
from boilerhouse.embedded.kubelet.sandbox.trial import try_out
from boilerhouse.embedded.kubelet.sessions.answering import Answers
from boilerhouse.embedded.kubelet.volumes.leftovers import Leftovers
from boilerhouse.embedded.kubelet.volumes.persistentclaims import PersistentClaims
from boilerhouse.embedded.kubelet.volumes.quotas import Quotas
from boilerhouse.platform.files.ballast import Ballast
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.kube.events import Events, Type
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic, Node
from boilerhouse.platform.kube.resources import NODES, Resource
from boilerhouse.platform.loop.priority import Gate

PODS: Resource[Dynamic] = Resource("", "v1", "pods", "Pod", Dynamic)
_LEAVE_SECONDS = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an installation decides about its kubelet."""

    builtin_image: str = "boilerhouse"  # whose containers are `builtins`
    builtins: Builtins = field(default_factory=dict)
    capacity: Requests | None = None  # what Pods may ask for in all; None = what the machine has
    pods: int | None = None  # of which there may be no more, whatever they ask for
    disk_seconds: float = 30.0  # between two looks at disk limits
    reserve: int | None = 0  # bytes of disk kept back for ourselves; None = a share of it
    # Directories below DIR that PersistentVolumeClaims are given, by namespace and name.
    volumes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ports_annotation: str = ""  # on a Pod: "<declared>:<reached at>,…" of ports that were taken
    network_label: str = ""  # on a Pod: what it may reach, none or unrestricted
    priority: Priority = lambda pod, ending: 1
    gate: Gate = field(default_factory=Gate)  # shared with what is in the foreground


class Kubelet:
    """From `open` to `close`; `answers` is its side of the Node port."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        sandboxes: Bubblewrapped,
        dependencies: PodDependencies,
        ledger: Ledger,
        disk: DiskPressure,
    ) -> None:
        self.disk = disk
        self.sandboxes = sandboxes
        self.images = dependencies.machine.images
        self._clock = clock
        self._client = client
        self._dependencies = dependencies
        self._ledger = ledger
        self._pods = Informer(client, PODS, namespace=ALL)
        self._nodes: Informer[Node] = Informer(client, NODES, namespace=ALL)
        self._scheduler = Scheduler(
            client, clock, ledger, self._bound, dependencies.events, self._ours
        )
        self._workers: dict[str, PodWorker] = {}
        self.answers = Answers(self._workers, clock)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}  # Pods whose worker failed, and words for it
        self._resources = AsyncExitStack()

    @classmethod
    async def open(
        cls,
        client: Client,
        clock: Clock,
        data: Path,
        settings: Settings,
        ballast: Ballast,
    ) -> Kubelet:
        """Run the Pods of `data`; main thread only. `SandboxError` says why it cannot be."""
        async with AsyncExitStack() as resources:
            # First: on a full disk, what follows lives on what was kept back.
            disk = DiskPressure(data, ballast)
            await disk.open()
            resources.push_async_callback(disk.close)
            sandboxes = await Bubblewrapped.open(data / "sandboxes", clock)
            resources.push_async_callback(sandboxes.close)
            await try_out(sandboxes)
            memory = await asyncio.to_thread(Memory.open, data)
            resources.callback(memory.close)
            images = await asyncio.to_thread(ImageStore, data / "images", clock)
            (data / "pods").mkdir(mode=0o700, exist_ok=True)
            spread(data / "pods")
            quotas = await asyncio.to_thread(Quotas.open, data / "pods")
            if not quotas.unavailable:  # else the Node says why not
                log.info("kubelet.disk_quotas")
            there = settings.capacity or capacity(data)
            if settings.pods is not None:
                there = replace(there, pods=min(there.pods, settings.pods))
            events = Events(client, clock, "kubelet", gate=settings.gate)
            await resources.enter_async_context(events.running())
            machine = Machine(clock, images, settings.builtins, settings.builtin_image, HOST_IP)
            dependencies = PodDependencies(
                client,
                machine,
                sandboxes,
                memory,
                PersistentClaims(client, data, settings.volumes),
                data / "pods",
                amounts(there),
                events,
                Turns(settings.gate, settings.priority),
                Leftovers(
                    clock,
                    data / "pods",
                    memory,
                    sandboxes.forget,
                    lambda why: kubelet._warn(why),
                    lambda uid: quotas.clear(sandboxes.host_uid(uid)),
                ),
                quotas,
                settings.ports_annotation,
                settings.network_label,
            )
            kubelet = cls(client, clock, sandboxes, dependencies, Ledger(there), disk)
            node = NodeObject(
                client,
                clock,
                there,
                sandboxes.limits_unenforced,
                sandboxes.limits_enforced,
                quotas.unavailable,
            )
            node.disk_pressure(disk.pressed)
            await node.register()
            await kubelet._begin(resources, node, settings.disk_seconds)
            kubelet._resources = resources.pop_all()
            return kubelet
        raise AssertionError("the block returns or raises")

    @property
    def died(self) -> asyncio.Future[None]:
        """Resolves if the sandboxes have ended by themselves, and every container with them."""
        return self.sandboxes.died

    @property
    def pods_at_most(self) -> int:
        """How many Pods the node takes."""
        return self._ledger.capacity.pods

    @property
    def cordoned(self) -> bool:
        """Whether no Pod is given to the node now."""
        return self._scheduler.cordoned

    def warnings(self) -> list[str]:
        """Say what is not as it should be although Pods run; empty when all is well."""
        disk = [self.disk.words] if self.disk.pressed else []
        return [*disk, *self._dependencies.leftovers.warnings(), *self._failed.values()]

    async def _begin(
        self, resources: AsyncExitStack, node: NodeObject, disk_seconds: float
    ) -> None:
        await resources.enter_async_context(self._pods.running())
        await resources.enter_async_context(self._nodes.running())
        await self._pods.wait_synced()
        await self._nodes.wait_synced()
        await self._sweep()
        self._nodes.subscribe(self._see_node)
        self._look_at_node(self._nodes.get("", NODE))
        self._scheduler.disk_pressure = self.disk.pressed
        self.disk.subscribe(node.disk_pressure)
        self.disk.subscribe(self._see_disk)
        self._pods.subscribe(self._see)
        # Who ran before, then who was sent here, then who has no node: as they got their room.
        for pod in sorted(self._pods.cache.values(), key=_standing):
            try:
                self._take(pod)
            except Exception as error:  # one Pod is no reason for the others not to run
                log.exception("kubelet.pod_not_taken", pod=pod.metadata.name)
                words = f"the Pod cannot be run: {error}"
                self._dependencies.events.tell(PODS, pod, "FailedStart", words, type="Warning")
        resources.push_async_callback(self._leave)
        evictions = Evictions(
            self._workers.values, self._dependencies.memory, disk_seconds, self._is_built_in
        )
        for name, work in (
            ("kubelet scheduler", self._scheduler.run),
            ("kubelet node status", node.run),
            ("kubelet disk limits", evictions.run),
            ("kubelet disk pressure", self.disk.run),
            ("kubelet leftovers", self._dependencies.leftovers.run),
        ):
            task = asyncio.create_task(supervised(name, work), name=name)
            resources.push_async_callback(_ended, task)

    async def close(self) -> None:
        """End every process; the Pods stay, and run again when we do."""
        await self._resources.aclose()

    async def _leave(self) -> None:
        self._dependencies.leftovers.stop()
        for worker in self._workers.values():
            worker.leave(_LEAVE_SECONDS)
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()))

    async def _sweep(self) -> None:
        """Have removed what is here of Pods that are gone: after a live look, never by a cache."""
        directory, memory = self._dependencies.directory, self._dependencies.memory
        found = await asyncio.to_thread(
            lambda: {*memory.pods(), *(entry.name for entry in directory.iterdir())}
        )
        live = {pod.metadata.uid for pod in (await self._client.list(PODS, namespace=ALL)).items}
        self._dependencies.leftovers.sweep((found | self.sandboxes.known()) - live)

    def _warn(self, why: str) -> None:
        """Tell, as an Event on the Node, of what an operator should look after."""
        node = self._nodes.get("", NODE)
        if node is not None:
            self._dependencies.events.tell(NODES, node, "LeftoverNotRemoved", why, type="Warning")

    def _see(self, change: Change[Dynamic]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._lost(old.metadata.uid)
        if new is not None:
            self._take(new)

    def _see_node(self, change: Change[Node]) -> None:
        if change.key.name == NODE:
            self._look_at_node(change.new)

    def _look_at_node(self, node: Node | None) -> None:
        self._scheduler.cordoned = node is not None and node.spec.unschedulable
        self._scheduler.look()

    def _see_disk(self, pressed: bool) -> None:
        """Tell of a disk that is nearly full, and give the node no Pods meanwhile."""
        self._scheduler.disk_pressure = pressed
        self._scheduler.look()
        node = self._nodes.get("", NODE)
        if node is not None:
            status = "NodeHasDiskPressure" if pressed else "NodeHasNoDiskPressure"
            words = self.disk.words or f"Node {NODE} status is now: {status}"
            kind: Type = "Warning" if pressed else "Normal"
            self._dependencies.events.tell(NODES, node, status, words, type=kind)

    def _ours(self, pod: Dynamic) -> bool:
        """Whether a Pod is made of built-in containers alone."""
        return all(self._is_built_in(one) for one in containers_of(pod.spec))

    def _is_built_in(self, container: Mapping[str, Any]) -> bool:
        return self._dependencies.machine.built_in(container) is not None

    def _lost(self, uid: str) -> None:
        self._scheduler.drop(uid)
        self._failed.pop(uid, None)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.gone()
        else:
            self._freed(uid)

    def _freed(self, uid: str) -> None:
        if self._ledger.take_back(uid):
            self._scheduler.look()

    def _take(self, pod: Dynamic) -> None:
        """Do what a Pod's newest state asks for."""
        meta, node = pod.metadata, pod.spec.get("nodeName")
        if not node:
            if meta.uid not in self._workers and meta.deletion_timestamp is None:
                self._scheduler.add(pod)
            return
        self._scheduler.drop(meta.uid)
        if node != NODE:
            return
        worker = self._workers.get(meta.uid)
        if worker is not None:
            worker.update(pod)
        else:
            self._start(pod)
        if pod.status.get("phase") in TERMINAL:
            self._freed(meta.uid)

    def _bound(self, pod: Dynamic) -> None:
        """Begin with a Pod that was just bound, before the watch has told us."""
        if pod.metadata.uid not in self._workers:
            spec = {**pod.spec, "nodeName": NODE}
            self._start(Dynamic(pod.api_version, pod.kind, pod.metadata, spec, pod.status))

    def _start(self, pod: Dynamic) -> None:
        meta = pod.metadata
        worker = PodWorker(self._dependencies, pod)
        self._workers[meta.uid] = worker
        if not worker.finished:
            self._admit(pod, worker)
        worker.update(pod)
        task = asyncio.create_task(worker.run(), name=f"pod {meta.namespace}/{meta.name}")
        self._tasks[meta.uid] = task
        task.add_done_callback(lambda done: self._done(meta.uid, done))

    def _admit(self, pod: Dynamic, worker: PodWorker) -> None:
        """Give a Pod its room; one that was sent here past the scheduler may find there is none."""
        uid, wanted = pod.metadata.uid, requests(pod.spec)
        if uid not in self._ledger and not pod.status.get("startTime"):
            lacking = self._ledger.lacking(wanted)
            if lacking:
                words = f"Node didn't have enough resource: {', '.join(lacking)}"
                worker.reject(f"OutOf{lacking[0]}", f"Pod was rejected: {words}")
                return
        self._ledger.give(uid, wanted)

    def _done(self, uid: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(uid, None)
        self._workers.pop(uid, None)
        self._freed(uid)
        if not task.cancelled() and task.exception() is not None:
            log.error("kubelet.worker_failed", task=task.get_name(), exc_info=task.exception())
            # Not started again here: what the failed one left of its sandbox is not known.
            self._failed[uid] = (
                f"the {task.get_name()} is not looked after any more, its worker failed"
                f" ({type(task.exception()).__name__}, see the log): restart Boilerhouse"
            )


def _standing(pod: Dynamic) -> int:
    if pod.status.get("startTime"):
        return 0
    return 1 if pod.spec.get("nodeName") else 2


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
