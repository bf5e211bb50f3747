"""Agents, the helper and its store, as claims may rely on them: what is promised, and no more.

SimSnapshots (the port, one per process) ─► Helper: jobs, step by step ─► Store: versions
                                                                     └─► Tenancy: what is in a Pod

A tenant's files are the marks that it has made, one for each time it wrote. So what is lost, or got
to somebody else, can be counted after every step. A job is a generator: between any two of its
steps the helper, the agent or the whole machine may die, and the requester may be long gone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from boilerhouse.core.errors import Retry, Terminal
from boilerhouse.node.agent.protocol import Changes, Usage
from boilerhouse.tenancy.claims.seen import Mode, SavedSeen
from boilerhouse.tenancy.claims.snapshots import CorruptVersion, HookFailed, NoSuchVersion
from tests.sim.client import Gates

Job = Generator[str, None, Any]


@dataclass
class Tenancy:
    """What is in one Pod, and what its agent knows. `life` counts its tenant's processes."""

    uid: str
    marks: list[str] = field(default_factory=list)
    frozen: bool = False
    dead: bool = False  # killed, and not started again yet
    started: bool = False
    life: int = 0
    agent_life: int = 0
    epoch: int = 0
    safe: int = 0  # the round whose save is committed
    marker: str = ""
    killed: bool = False

    @property
    def writes(self) -> bool:
        return self.started and not self.frozen and not self.dead

    def freeze(self, epoch: int) -> None:
        self._heed(epoch)
        self.frozen = True

    def thaw(self, epoch: int) -> None:
        if 0 < epoch == self.safe:
            raise Retry("what was saved is committed")
        self._heed(epoch)
        self.frozen = False

    def undo(self, epoch: int) -> None:
        """A save came to nothing: the tenant runs on, unless an earlier one is committed."""
        if epoch in (0, self.epoch) and epoch != (self.safe or None):
            self.frozen = False

    def saved(self, epoch: int) -> None:
        if epoch not in (0, self.epoch) or not self.frozen:
            raise Retry("thawed meanwhile")
        self.safe = epoch

    def kill(self) -> None:
        self.killed, self.dead, self.frozen = True, True, False

    def begin_anew(self) -> None:
        self.life += 1
        self.frozen = self.dead = False

    def _heed(self, epoch: int) -> None:
        if 0 < epoch < self.epoch:  # 0 is no number
            raise Retry("stale round")
        self.epoch = max(epoch, self.epoch)


@dataclass(frozen=True)
class Version:
    digest: str
    marks: tuple[str, ...]
    base: str
    pod: str
    side: bool


@dataclass
class Store:
    """Versions by tenant, the last that is not a side version is current."""

    versions: dict[str, list[Version]] = field(default_factory=dict)
    corrupt: set[str] = field(default_factory=set)
    full: bool = False
    committed: Callable[[str, Version | None, Version], None] = lambda tenant, old, new: None

    def __post_init__(self) -> None:
        self._digests: dict[tuple[str, tuple[str, ...]], str] = {}
        self._numbers = itertools.count(1)

    def current(self, tenant: str) -> Version | None:
        kept = [v for v in self.versions.get(tenant, ()) if not v.side]
        return kept[-1] if kept else None

    def get(self, tenant: str, digest: str) -> Version:
        for version in self.versions.get(tenant, ()):
            if version.digest == digest:
                if digest in self.corrupt:
                    raise CorruptVersion("bad bytes")
                return version
        raise NoSuchVersion(digest)

    def previous(self, tenant: str, digest: str) -> str:
        older = []
        for version in self.versions.get(tenant, ()):
            if version.digest == digest:
                break
            older.append(version.digest)
        return next((old for old in reversed(older) if old not in self.corrupt), "")

    def commit(self, tenant: str, marks: tuple[str, ...], base: str, pod: str) -> SavedSeen:
        """Commit by the replace rule; nothing is written that is there already."""
        old = self.current(tenant)
        may = (
            old is None
            or old.digest == base
            or old.pod == pod
            or old.digest in self._ancestors(tenant, base)
        )
        digest = self._digests.setdefault((tenant, marks), f"v{next(self._numbers)}")
        if may and old is not None and old.digest == digest:
            return SavedSeen(digest)
        new = Version(digest, marks, base, pod, side=not may)
        self.versions.setdefault(tenant, []).append(new)
        self.committed(tenant, old, new)
        return SavedSeen(digest, side_version=not may)

    def kept(self, tenant: str) -> set[str]:
        """Return every mark that is in some version."""
        return {mark for version in self.versions.get(tenant, ()) for mark in version.marks}

    def _ancestors(self, tenant: str, digest: str) -> set[str]:
        found: set[str] = set()
        by_digest = {v.digest: v for v in self.versions.get(tenant, ())}
        while digest in by_digest and by_digest[digest].base not in found | {""}:
            digest = by_digest[digest].base
            found.add(digest)
        return found


@dataclass
class Running:
    """A job of the helper, and everybody who waits for its end."""

    steps: Job
    waiting: list[asyncio.Future[Any]] = field(default_factory=list)


class Helper:
    """Jobs on instances. `tenancies` by the Pod's UID; one that is not there cannot be reached."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tenancies: dict[str, Tenancy] = {}
        self.jobs: dict[str, Running] = {}

    def ask(self, name: str, job: Callable[[], Job]) -> asyncio.Future[Any]:
        """Start a job, or join the one of that name."""
        if name not in self.jobs:
            self.jobs[name] = Running(job())
        epoch: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.jobs[name].waiting.append(epoch)
        return epoch

    def step(self, name: str) -> None:
        """Let one thing of a job happen."""
        running = self.jobs[name]
        try:
            next(running.steps)
        except StopIteration as end:
            self._end(name, end.value, None)
        except (Retry, Terminal) as error:
            self._end(name, None, error)

    def finish(self) -> None:
        while self.jobs:
            self.step(next(iter(self.jobs)))

    def die(self, only: str = "") -> None:
        """Drop what is under way, of one Pod or of all: nobody is told how it would have ended."""
        for name in [name for name in self.jobs if only in name]:
            self.jobs[name].steps.close()
            self._end(name, None, Retry("the connection is lost"))

    def _end(self, name: str, value: Any, error: Exception | None) -> None:
        for epoch in self.jobs.pop(name).waiting:
            if epoch.done():
                continue
            if error is None:
                epoch.set_result(value)
            else:
                epoch.set_exception(error)
                epoch.exception()  # whoever waited may be dead

    def save(self, tenant: str, uid: str, base: str, epoch: int) -> Job:
        inside = self.inside(uid)
        inside.freeze(epoch)
        try:
            yield "frozen"
            marks = tuple(inside.marks)
            yield "streamed"
            if epoch not in (0, self.inside(uid).epoch) or tuple(inside.marks) != marks:
                raise Retry("it changed meanwhile")
            if self.store.full:
                raise Retry("the volume is full")
        except (GeneratorExit, Retry):
            inside.undo(epoch)
            raise
        yield "stored"
        saved = self.store.commit(tenant, marks, base, uid)
        yield "committed"
        self.inside(uid).saved(epoch)
        return saved

    def restore(self, tenant: str, uid: str, digest: str, mode: Mode) -> Job:
        inside = self.inside(uid)
        if inside.marker and inside.marker != digest:
            raise Terminal("restored already, another version")
        if not inside.marker:
            version = self.store.get(tenant, digest)
            inside.frozen = mode == "restart" or inside.frozen
            yield "frozen"
            self.inside(uid).marks.clear()
            yield "emptied"
            self.inside(uid).marks[:] = version.marks
            yield "filled"
            self.inside(uid).marker = digest
            yield "marked"
        if mode == "restart" and not self.inside(uid).killed:
            inside.kill()
        return ()

    def inside(self, uid: str) -> Tenancy:
        if uid not in self.tenancies:
            raise Retry("the agent does not answer")
        return self.tenancies[uid]


class SimSnapshots:
    """The port as one process has it: each call passes a gate on its way, and one on its way back.

    Also hooks, which fail when they are told to.
    """

    def __init__(self, helper: Helper, gates: Gates, actor: str) -> None:
        self._helper = helper
        self._gates = gates
        self._actor = actor
        self.hooks_fail = False

    async def current(self, tenant: str, workload: str) -> str:
        def look() -> str:
            found = self._helper.store.current(tenant)
            return "" if found is None else found.digest

        return str(await self._call(f"current of {tenant}", look))

    async def previous(self, tenant: str, workload: str, digest: str) -> str:
        store = self._helper.store
        return str(await self._call("previous", lambda: store.previous(tenant, digest)))

    async def save(
        self,
        pod: str,
        uid: str,
        *,
        tenant: str,
        workload: str,
        base: str,
        epoch: int,
        keep: int,
        clean: bool,
        halting: Callable[[], None],
    ) -> SavedSeen:
        name = f"save {pod}/{uid} in round {epoch}"
        job = lambda: self._helper.save(tenant, uid, base, epoch)  # noqa: E731
        saved: SavedSeen = await self._long(name, job)
        return saved

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> tuple[str, ...]:
        name = f"restore {pod}/{uid} {digest}"
        await self._long(name, lambda: self._helper.restore(tenant, uid, digest, mode))
        return ()

    async def thaw(self, pod: str, uid: str, *, epoch: int) -> None:
        await self._call(f"thaw {pod}", lambda: self._helper.inside(uid).thaw(epoch))

    async def changes(self, pod: str, uid: str, directories: Sequence[str], since: int) -> Changes:
        return Changes(None, True, 0)

    async def usage(self, pod: str, uid: str, disk_gb: int) -> Usage:
        return Usage(0, 0, True, {}, 0.0)

    async def run(self, pod: str, command: Sequence[str], timeout: timedelta) -> None:
        await self._pass(f"hook in {pod}", answered=False)
        if self.hooks_fail:
            raise HookFailed("simulated")

    async def _long(self, name: str, job: Callable[[], Job]) -> Any:
        await self._pass(name, answered=False)
        epoch = self._helper.ask(name, job)
        if self._gates.open:
            self._helper.finish()
        result = await epoch
        await self._pass(name, answered=True)
        return result

    async def _call(self, what: str, act: Callable[[], Any]) -> Any:
        await self._pass(what, answered=False)
        result = act()
        await self._pass(what, answered=True)
        return result

    async def _pass(self, what: str, *, answered: bool) -> None:
        verdict = await self._gates.pass_through(self._actor, what, writes=True, answered=answered)
        if verdict != "go":
            raise Retry("simulated: nobody answers")
