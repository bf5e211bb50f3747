"""The helper's `/snapshots`: requests in, store and agents behind.

Request ─► SnapshotRoutes ─► Saver, Restorer (as jobs) | Store (in threads) ─► Answer

What a claim asks on its way (`current`) is answered from memory wherever it can be, and waits for
nothing that is slow: saves, restores and transfers have places of their own.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import SMALL_LIMIT
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.agentline import Reach, line
from boilerhouse.node.helper.operations.exchanging import Exchanges
from boilerhouse.node.helper.operations.importing import inspect
from boilerhouse.node.helper.operations.jobs import Jobs
from boilerhouse.node.helper.operations.restoring import Restorer
from boilerhouse.node.helper.operations.saving import Saver
from boilerhouse.node.helper.operations.transfer import ArchiveBody, Threads, receive
from boilerhouse.node.helper.store import places
from boilerhouse.node.helper.store.intact import check, corrupt
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store, told
from boilerhouse.node.helper.wire import (
    PromoteOrder,
    Restored,
    RestoreOrder,
    Saved,
    SaveOrder,
    Version,
)
from boilerhouse.platform.archive.model import Limits
from boilerhouse.platform.rpc.message import Answer, Handler, HeldBody, Request, json_answer
from boilerhouse.platform.rpc.refusal import Refused

# Bytes of an archive that is read twice, so that damage is a clear answer. In a larger one it shows
# when some has been sent: then the answer breaks off.
READ_FIRST = 16 << 20
_MODES = ("cold", "restart", "live")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much the helper does at the same time; what is more waits its turn, or is refused."""

    saves: int = 4
    restores: int = 4
    transfers: int = 32  # archives to and from whoever asks
    waiting: int = 1000  # jobs of each kind, those at work included
    threads: int = 8
    patience: float = 25.0  # seconds that a call waits for a job before it is told to ask again
    queue: float = 5.0  # seconds that a transfer waits for a place


class SnapshotRoutes:
    """Answers for one store, which is closed with it."""

    def __init__(self, store: Store, reach: Reach, capacity: Capacity) -> None:
        self._store = store
        self._reach = reach
        self._queue = capacity.queue
        self._threads = Threads(capacity.threads)
        self._exchanges = Exchanges(self._threads)
        self._saver = Saver(store, self._threads)
        self._restorer = Restorer(store, self._threads)
        waiting, patience = capacity.waiting, capacity.patience
        self._saves: Jobs[Saved] = Jobs(
            "save", at_once=capacity.saves, limit=waiting, patience=patience
        )
        self._restores: Jobs[Restored] = Jobs(
            "restore", at_once=capacity.restores, limit=waiting, patience=patience
        )
        self._transfers = asyncio.Semaphore(capacity.transfers)
        self._inspections = asyncio.Semaphore(1)  # of two million entries one takes 32 MiB
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", wire.CURRENT): self._current,
            ("GET", wire.SNAPSHOTS): self._list,
            ("DELETE", wire.SNAPSHOTS): self._delete,
            ("GET", wire.ARCHIVE): self._download,
            ("PUT", wire.ARCHIVE): self._upload,
            ("POST", wire.SAVE): self._save,
            ("POST", wire.RESTORE): self._restore,
            ("POST", wire.PROMOTE): self._promote,
        }

    async def handle(self, request: Request) -> Answer:
        """Answer one request."""
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            raise Refused(404, "no-such-path", f"there is no {request.method} {request.path}")
        return await handler(request)

    def check(self) -> None:
        """Raise `Refused` if the store can promise nothing any more."""
        self._store.check()

    async def close(self) -> None:
        """Cut off what is under way, finish what is being written, let go of the volume."""
        await self._saves.close()
        await self._restores.close()
        await self._threads.close()
        self._store.close()

    async def _current(self, request: Request) -> Answer:
        where = _place(request)
        claim = request.param("claim") is not None
        self._store.check()
        while True:
            if claim and where in self._exchanges:
                await self._exchanges.note_claim(where)
            shelf = self._store.peek(where)
            if shelf is not None:
                break
            await self._threads.run(self._store.shelf, where)
        if shelf.current is None:
            return Answer(204)  # no refusal: nearly every first claim hears it
        return json_answer(told(where, shelf.current, shelf).encode())

    async def _list(self, request: Request) -> Answer:
        page = await self._threads.run(
            self._store.page,
            request.param("tenant") or "",
            request.param("workload") or "",
            request.param("after") or "",
            request.param("versions") == "true",
        )
        return json_answer(page.encode())

    async def _delete(self, request: Request) -> Answer:
        await self._threads.run(self._store.delete, _place(request), request.number("seq"))
        return Answer(204)

    async def _promote(self, request: Request) -> Answer:
        order = wire.read_order(PromoteOrder, await request.body.read(SMALL_LIMIT))
        where = places.place(order.tenant, order.workload)
        keep = _kept(order.keep)
        with self._exchanges.begun(where) as exchange:
            version, new = await exchange.commit(self._store.promote, where, order.seq, keep)
        return json_answer(version.encode(), _made(new))

    async def _save(self, request: Request) -> Answer:
        order = wire.read_order(SaveOrder, await request.body.read(SMALL_LIMIT))
        where = places.place(order.tenant, order.workload)
        _kept(order.keep)
        if order.base and not places.is_digest(order.base):
            raise Refused(400, "bad-order", "base is a digest, or empty")
        if not order.pod:
            raise Refused(400, "bad-order", "pod is the UID of the Pod that is saved")
        agent = line(self._reach, request)
        key = (where, order.pod)
        done = await self._saves.ask(
            key,
            order,
            lambda place: self._saver.save(agent, where, order, place),
            until_left=request.param(wire.HALTING) is not None,
        )
        if done is not None:
            return json_answer(done.encode())
        return _HALTING if self._saves.left(key) else _RUNNING

    async def _restore(self, request: Request) -> Answer:
        order = wire.read_order(RestoreOrder, await request.body.read(SMALL_LIMIT))
        where = places.place(order.tenant, order.workload)
        if order.mode not in _MODES or not places.is_digest(order.digest):
            raise Refused(400, "bad-order", f"digest is one, and mode one of {', '.join(_MODES)}")
        agent = line(self._reach, request)
        done = await self._restores.ask(
            (where, order.pod), order, lambda _: self._restorer.restore(agent, where, order)
        )
        return _RUNNING if done is None else json_answer(done.encode())

    async def _download(self, request: Request) -> Answer:
        where, seq = _place(request), request.number("seq")
        await self._begin_transfer()
        try:
            file, version = await self._threads.run(self._opened, where, seq)
        except BaseException:
            self._transfers.release()
            raise
        body = HeldBody(ArchiveBody(file, version, self._threads), self._transfers.release)
        headers = {"content-type": wire.GZIP, wire.VERSION: version.encode().decode()}
        return Answer(200, body, headers)

    def _opened(self, where: Place, seq: int | None) -> tuple[int, Version]:
        """Open an archive; 409 if it is known to be damaged before the first byte is sent."""
        file, version = self._store.open_version(where, seq)
        try:
            if os.fstat(file).st_size != version.size:
                raise corrupt(version)
            if version.size <= READ_FIRST:
                check(file, version)
                os.lseek(file, 0, os.SEEK_SET)
        except BaseException:
            os.close(file)
            raise
        return file, version

    async def _upload(self, request: Request) -> Answer:
        where, expect = _place(request), request.param("expect")
        keep = _kept(request.number("keep") or wire.KEEP)
        limits = Limits.of_disk(request.number("disk") or 0)
        overlays = request.params("overlay")
        with self._exchanges.begun(where) as exchange:
            await self._begin_transfer()
            try:
                incoming = await self._threads.run(self._store.incoming)
                try:
                    await receive(request.body, incoming, self._threads)
                    await self._threads.run(incoming.settle)
                    async with self._inspections:
                        counted = await self._threads.run(inspect, incoming, limits, overlays)
                    held = await self._threads.run(self._store.holds, where, incoming.digest)
                    version, new = await exchange.commit(
                        self._store.put,
                        where,
                        incoming,
                        entries=counted.entries,
                        content=counted.content,
                        expect=expect,
                        keep=keep,
                        held=held,
                    )
                finally:
                    await asyncio.to_thread(incoming.discard)
            finally:
                self._transfers.release()
        return json_answer(version.encode(), _made(new))

    async def _begin_transfer(self) -> None:
        try:
            async with asyncio.timeout(self._queue):
                await self._transfers.acquire()
        except TimeoutError:
            raise Refused(503, "busy", "the helper has too much to do; try again") from None


_RUNNING = Answer(202)
_HALTING = Answer(202, headers={protocol.HALTING: "true"})


def _place(request: Request) -> Place:
    return places.place(request.param("tenant") or "", request.param("workload") or "")


def _made(new: bool) -> int:
    return wire.MADE if new else 200


def _kept(keep: int) -> int:
    if not 1 <= keep <= 1000:
        raise Refused(400, "bad-order", "keep is between 1 and 1000")
    return keep
