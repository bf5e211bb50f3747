"""The agent: what it answers, and to whom.

helper ─► Server ─► token ─► route ─► identity | survey | files | saving | restoring
DiskMonitor ─► DiskGuard ─► frozen while its disk is full

It can be killed and started at any moment: what must not be forgotten is in its own volume
(`record.py`, `hold.py`, `raisedlimit.py`), and `start` goes on from there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boilerhouse.core.clock import Clock
from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.disk.guard import DiskGuard
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.monitor import DiskMonitor
from boilerhouse.node.agent.disk.quota import DiskQuota
from boilerhouse.node.agent.disk.survey import Survey
from boilerhouse.node.agent.files import Files
from boilerhouse.node.agent.freezer.hold import Hold, Why
from boilerhouse.node.agent.freezer.processes import Processes
from boilerhouse.node.agent.identity import IdentityDirectory
from boilerhouse.node.agent.overlays import Overlays
from boilerhouse.node.agent.protocol import IdentityFiles, State, Usage
from boilerhouse.node.agent.record import Record
from boilerhouse.node.agent.restoring import Restores
from boilerhouse.node.agent.saving import Saves
from boilerhouse.node.agent.settling import Settling
from boilerhouse.platform.archive.model import Owners
from boilerhouse.platform.archive.workers import Workers
from boilerhouse.platform.files.quota import Quota
from boilerhouse.platform.rpc.guard import TokenGuard
from boilerhouse.platform.rpc.message import Answer, Handler, Request, json_answer
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.platform.rpc.server import Server


@dataclass(frozen=True, slots=True)
class Config:
    """Where an agent's things are. `overlays`: path in the instance ─► directory here.

    `restore`: the snapshot that the tenant's start waits for, if any. `state`: a directory that is
    the agent's alone. `owners`: whose files are whose, on either side. `workers` may be shared.
    `disk`: at which the tenant is frozen, None: at none. `monitor` may be shared. `beside`:
    directories that count to the tenant's disk use, and are neither saved nor shown. `quota`: by
    which the file system refuses what is written past `disk`, if it can.
    `changed` is called when a probe would be answered otherwise: the tenant may start, or run on,
    on what was restored, or its disk is full, or no more.
    """

    identity: Path
    overlays: Mapping[str, Path]
    state: Path
    token: str = field(repr=False)
    restore: str = ""
    owners: Owners = field(default_factory=Owners)
    workers: Workers = field(default_factory=Workers)
    disk: DiskLimit | None = None
    monitor: DiskMonitor = field(default_factory=DiskMonitor)
    beside: tuple[Path, ...] = ()
    quota: Quota | None = None
    changed: Callable[[], None] = lambda: None


class Agent:
    """One instance's agent. It can be asked through a socket (`start`) or in process (`handle`)."""

    def __init__(self, config: Config, processes: Processes, clock: Clock) -> None:
        """Read what an agent before this one has left, which blocks."""
        overlays = Overlays(config.overlays)
        self._record = Record(config.state)
        self._hold = Hold(processes, self._record, config.state, awaited=bool(config.restore))
        self._settling = Settling(self._record, self._hold.turn, config.overlays.values())
        self._saves = Saves(
            config.overlays,
            config.owners,
            self._hold,
            self._record,
            self._settling,
            config.workers,
        )
        self._restores = Restores(
            config.overlays,
            config.owners,
            self._hold,
            self._record,
            processes,
            self._settling,
            config.workers,
        )
        self._changed = config.changed
        self._savable = bool(config.overlays)
        self._guard = TokenGuard(config.token)
        self._identity = IdentityDirectory(config.identity)
        self._survey = Survey(
            overlays,
            clock,
            beside=config.beside,
            pids=lambda: [process.pid for process in processes.of_tenant()],
        )
        self._monitor = config.monitor
        self._disk: DiskGuard | None = None
        if config.disk is not None and config.overlays:
            directory = next(iter(config.overlays.values()))
            self._disk = DiskGuard(
                directory,
                config.disk,
                self._survey,
                self._hold,
                processes,
                clock,
                config.changed,
                config.state,
                DiskQuota(config.quota),
            )
        self._files = Files(overlays, processes)
        self._server = Server("agent", self.handle, connections=32)
        self._routes: dict[tuple[str, str], Handler] = {
            ("PUT", protocol.IDENTITY): self._put_identity,
            ("GET", protocol.USAGE): self._get_usage,
            ("GET", protocol.CHANGES): self._get_changes,
            ("GET", protocol.FILES): self._get_file,
            ("PUT", protocol.FILES): self._put_file,
            ("DELETE", protocol.FILES): self._delete_file,
            ("POST", protocol.SAVE): self._post_save,
            ("GET", protocol.SAVE): self._get_save,
            ("POST", protocol.SAVED): self._post_saved,
            ("POST", protocol.THAW): self._post_thaw,
            ("POST", protocol.RESTORE): self._post_restore,
            ("GET", protocol.STATE): self._get_state,
        }

    async def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket, which is the agent's from now on, until `stop`."""
        await self._hold.recover()
        self._settling.begin()
        if self._disk is not None:
            await self._disk.start()
            self._monitor.add(self._disk)
        await self._server.start(listener)

    async def stop(self) -> None:
        """Stop serving; what is under way is cut off, and a tenant that was being saved runs."""
        await self._server.stop()
        await self._restores.close()  # who asked in process is not cut off with the connections
        await self._saves.close()
        await self._settling.close()
        if self._disk is not None:
            await self._monitor.remove(self._disk)
            await self._disk.close()

    async def dispensable(self) -> None:
        """Return when nobody needs this agent any more, though it was asked to end.

        In an instance that is deleted from outside (a drain, an eviction) the tenant ends first.
        What it leaves is saved within the Pod's grace, and that takes its agent.
        """
        if self._savable and not self._hold.unrestored and await self._bound():
            await self._hold.saved.wait()

    async def handle(self, request: Request) -> Answer:
        """Answer one request; `Refused` if it is not for us, or not allowed."""
        if request.path == protocol.STARTED:
            return self._started()
        if request.path == protocol.READY:
            return self._ready()
        self._guard.check(request)
        return await route(self._routes, request)

    def _started(self) -> Answer:
        """Answer kubelet's startup probe: the tenant's container starts after the first success.

        So what an instance must have before its tenant starts is waited for here. Nor does the
        tenant of a machine that was started again run on what was saved for good.
        """
        if self._hold.unrestored or self._hold.why is Why.SAVED:
            if self._hold.cold:
                self._restores.make_ready()  # now that kubelet has been told to wait
            raise Refused(503, "not-restored", "the tenant waits for a restore, or was saved")
        return Answer(204)

    def _ready(self) -> Answer:
        """Answer kubelet's readiness probe: a Pod whose tenant is frozen for its disk is not ready.

        So the operator hears of it by its watch of Pods, and asks for the rest (`USAGE`).
        """
        if self._disk is not None and self._disk.full:
            raise Refused(503, "disk-full", "the tenant is frozen: its disk is full")
        return Answer(204)

    async def _bound(self) -> bool:
        return self._record.restored is not None or await self._identity.told()

    async def _put_identity(self, request: Request) -> Answer:
        body = await request.body.read(protocol.SMALL_LIMIT)
        await self._identity.tell(IdentityFiles.decode(body))
        return Answer(204)

    async def _get_usage(self, request: Request) -> Answer:
        """Count, or with `diskGb`, the limit by now, tell what was counted last: that is cheap."""
        usage = await self._counted(request) or await self._survey.usage()
        return json_answer((usage if self._disk is None else self._disk.told(usage)).encode())

    async def _counted(self, request: Request) -> Usage | None:
        gb = request.number("diskGb", "bad-diskGb")
        if self._disk is None or not gb:
            return None
        await self._disk.raise_limit(DiskLimit.of_gb(gb))
        return self._disk.last()

    async def _get_changes(self, request: Request) -> Answer:
        since = request.param("since")
        if since is not None and not (since.isascii() and since.isdecimal() and len(since) < 20):
            raise Refused(400, "bad-since", "since is a time in nanoseconds since 1970")
        changes = await self._survey.changes(
            request.params("dir"), None if since is None else int(since)
        )
        return json_answer(changes.encode())

    async def _get_file(self, request: Request) -> Answer:
        return await self._files.get(_given(request, "path"))

    async def _put_file(self, request: Request) -> Answer:
        if self._disk is not None and not self._disk.writable:
            words = "the instance's disk is full: remove files, or give its workload more disk"
            raise Refused(507, "disk-full", words)
        return await self._files.put(_given(request, "path"), request.body)

    async def _post_save(self, request: Request) -> Answer:
        known, epoch = request.param("known") or "", _epoch(request)
        return await self._saves.begin(_given(request, "id"), known, epoch)

    async def _get_save(self, request: Request) -> Answer:
        return json_answer(self._saves.report(_given(request, "id")).encode())

    async def _post_saved(self, request: Request) -> Answer:
        await self._saves.committed(_given(request, "id"), _given(request, "digest"))
        return Answer(204)

    async def _post_thaw(self, request: Request) -> Answer:
        await self._saves.thaw(_epoch(request))
        return Answer(204)

    async def _post_restore(self, request: Request) -> Answer:
        what = _given(request, "digest"), _given(request, "mode"), request.body
        if self._disk is None or self._record.restored is not None:
            report = await self._restores.restore(*what)
        else:
            async with self._disk.restoring():
                report = await self._restores.restore(*what)
        if self._disk is not None:
            self._disk.begin_anew()
        self._changed()
        return json_answer(report.encode())

    async def _get_state(self, request: Request) -> Answer:
        restored, baseline = self._record.restored, self._record.baseline
        state = State(
            "" if restored is None else restored.digest,
            "" if baseline is None else baseline.digest,
            self._hold.why is not Why.NOTHING,
            await self._bound(),
        )
        answer = json_answer(state.encode())
        if self._hold.halting:
            return Answer(answer.status, answer.body, {**answer.headers, protocol.HALTING: "true"})
        return answer

    async def _delete_file(self, request: Request) -> Answer:
        return await self._files.delete(_given(request, "path"))


async def route(routes: Mapping[tuple[str, str], Handler], request: Request) -> Answer:
    """Hand a request to the handler of its method and path."""
    handler = routes.get((request.method, request.path))
    if handler is not None:
        return await handler(request)
    if any(path == request.path for _, path in routes):
        raise Refused(405, "bad-method", f"{request.path} does not know {request.method}")
    raise Refused(404, "no-such-path", f"there is nothing at {request.path}")


def _epoch(request: Request) -> int:
    """Return the number of an order; 0 if it has none."""
    return request.number("round", "bad-round") or 0


def _given(request: Request, name: str) -> str:
    value = request.param(name)
    if value is None:
        raise Refused(400, f"bad-{name}", f"the parameter {name} is missing")
    return value
