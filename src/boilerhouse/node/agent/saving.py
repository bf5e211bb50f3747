"""Saving: the overlay directories as one stream, of a tenant that stands still.

POST /save ─► halt ─► fingerprint ─► equal to the baseline? ─► Unchanged
                            └─► stream ─► fingerprint again ─► SaveReport        GET /save
POST /saved ─► baseline: it is never to run again        POST /thaw ─► it is to run after all

Whatever goes wrong lets the tenant run again: a failure, a stream that is not read to its end, a
helper that never says what became of it. Only after a complete stream does it stay halted, since
what it did from then on would be in no snapshot.

Orders carry a number. An older one than was heard of is refused, whoever sends it so late. What was
committed stays so, and the tenant halted, until an order with a higher number lets it run: somebody
who saves once more under the same epoch, and fails, changes nothing about that.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from boilerhouse.node.agent.freezer.hold import Hold, Why
from boilerhouse.node.agent.protocol import GZIP, SAVE_FAILED, SaveReport, Unchanged
from boilerhouse.node.agent.record import Baseline, Record
from boilerhouse.node.agent.settling import Settling
from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.model import Fingerprint, Owners
from boilerhouse.platform.archive.packer import Packer, fingerprint
from boilerhouse.platform.archive.workers import Workers
from boilerhouse.platform.rpc.message import Answer, Body, json_answer
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

SILENCE = 60.0  # seconds for which nobody reads a stream, until it is given up
WORD = 600.0  # seconds until the helper must have said that what it got is committed
_NAMED, _NAME = 10, 300  # what could not be kept: how many are named, in how many characters
_ID = re.compile(r"[0-9a-f]{1,64}")


class Saves:
    """The saves of one instance: one at a time, a newer one ends an older."""

    def __init__(
        self,
        overlays: Mapping[str, Path],
        owners: Owners,
        hold: Hold,
        record: Record,
        settling: Settling,
        workers: Workers,
    ) -> None:
        self._overlays = overlays
        self._owners = owners
        self._hold = hold
        self._record = record
        self._settling = settling
        self._workers = workers
        self._save: _Save | None = None
        self._safe = False  # what is being saved once more is committed already

    async def begin(self, identifier: str, known: str, epoch: int = 0) -> Answer:
        """Halt the tenant and answer with the stream, or that all is as in the version `known`.

        The tenant stays halted until `committed` and beyond, or until `thaw`.
        """
        if not _ID.fullmatch(identifier):
            raise Refused(400, "bad-id", "the id of a save is 1 to 64 hexadecimal digits")
        self._hold.require_restored()  # before the turn, which a restore has for a while
        async with self._hold.turn:
            self._hold.require_restored()
            if self._save is not None:
                await self._save.stop("another save was asked for")
                self._save = None
            self._require_newest(epoch)
            committed = self._hold.why is Why.SAVED or (self._safe and self._hold.why is Why.SAVE)
            self._safe = committed and 0 < epoch == self._record.epoch
            await self._record.heed(epoch)
            await self._hold.take(Why.SAVE)
            try:
                return await self._begin(identifier, known)
            except BaseException:
                await self._undo()
                raise

    def _require_newest(self, epoch: int) -> None:
        newest = self._record.epoch
        if 0 < epoch < newest:
            raise Refused(409, "stale-round", f"round {epoch} is over: {newest} has begun")

    async def _undo(self) -> None:
        """Have the tenant as it was before a save that came to nothing."""
        if self._safe:
            await self._hold.keep()
        else:
            await self._hold.let_go()

    async def _begin(self, identifier: str, known: str) -> Answer:
        try:
            found = await fingerprint(self._overlays, self._workers)
        except Failed as failed:
            raise Refused(500, failed.code, failed.message) from failed
        baseline, torn = self._record.baseline, self._settling.torn
        if baseline is not None and baseline.equals(known, found.digest) and not torn:
            save = self._save = _Save(identifier, found, None, torn, self._given_up)
            save.report = SaveReport(
                known, 0, found.entries, found.bytes, stable=True, fingerprint=found.digest
            )
            save.expect(WORD, "nobody said that the snapshot is known")
            return json_answer(Unchanged(known).encode())
        packer = Packer(self._overlays, owners=self._owners, deep=found.deep, workers=self._workers)
        save = self._save = _Save(identifier, found, packer, torn, self._given_up)
        save.expect(SILENCE, "nobody reads the stream")
        return Answer(200, _Stream(save, packer), {"content-type": GZIP})

    def report(self, identifier: str) -> SaveReport:
        """Tell what a save has sent."""
        save = self._save
        if save is None or save.identifier != identifier:
            raise Refused(404, "no-such-save", f"there is no save {identifier} here (any more)")
        if save.failure:
            raise Refused(500, SAVE_FAILED, save.failure)
        if save.report is None:
            raise Refused(409, "save-running", "the stream has not come to its end")
        return save.report

    async def committed(self, identifier: str, digest: str) -> None:
        """Take the helper's word that the snapshot is safe. May be repeated."""
        async with self._hold.turn:
            baseline = self._record.baseline
            if self._hold.why is Why.SAVED and baseline is not None and baseline.digest == digest:
                return
            report = self.report(identifier)
            if report.sha256 != digest:
                raise Refused(409, "other-digest", f"this save sent {report.sha256}")
            if not report.stable:
                raise Refused(409, "not-stable", "something changed during this save: repeat it")
            if baseline is None or not baseline.equals(digest, report.fingerprint):
                made = Baseline(digest, report.fingerprint, until_thaw=True)
                await self._record.write(self._record.restored, made)
            await self._hold.keep()
            assert self._save is not None, "it has a report"
            self._save.expect(None)

    async def thaw(self, epoch: int = 0) -> None:
        """Let the tenant run again; what was committed under this number or a higher one stays."""
        self._hold.require_restored()
        async with self._hold.turn:
            self._hold.require_restored()
            self._require_newest(epoch)
            safe = self._hold.why is Why.SAVED or (self._safe and self._hold.why is Why.SAVE)
            if safe and 0 < epoch == self._record.epoch:
                raise Refused(409, "saved", f"what was saved in round {epoch} is committed")
            await self._record.heed(epoch)
            self._safe = False
            if self._save is not None:
                await self._save.stop("the tenant was asked to run again")
                self._save = None
            await self._hold.let_go()

    async def close(self) -> None:
        """Give up what is not committed."""
        if self._save is not None and self._hold.why is Why.SAVE:
            await self._save.give_up("the agent ends")

    async def _given_up(self, save: _Save) -> None:
        async with self._hold.turn:
            if self._save is save and self._hold.why is Why.SAVE:
                await self._undo()


class _Save:
    """One save. `report` once it is complete, `failure` once it never will be."""

    def __init__(
        self,
        identifier: str,
        before: Fingerprint,
        packer: Packer | None,
        torn: bool,
        given_up: Callable[[_Save], Awaitable[None]],
    ) -> None:
        self.identifier = identifier
        self.before = before
        self.packer = packer
        self.torn = torn
        self.report: SaveReport | None = None
        self.failure = ""
        self.reading: asyncio.Task[bytes] | None = None
        self._given_up = given_up
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None

    def expect(self, seconds: float | None, why: str = "") -> None:
        """Give up after so many seconds, unless told otherwise before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._expire, why)

    def _expire(self, why: str) -> None:
        log.warning("save given up: %s", why)
        self._late = asyncio.create_task(self.give_up(why), name="save given up")

    async def give_up(self, why: str) -> None:
        """End it for good and let the tenant run."""
        await self.stop(why)
        await self._given_up(self)

    async def stop(self, why: str) -> None:
        """End it for good; the tenant stays as it is."""
        self.expect(None)
        if not self.failure:
            self.failure = why
            self.report = None
            if self.reading is not None:
                self.reading.cancel()
                await asyncio.wait({self.reading})
            if self.packer is not None:
                await self.packer.close()


class _Stream(Body):
    """A save on its way out."""

    def __init__(self, save: _Save, packer: Packer) -> None:
        self.length = None
        self._save = save
        self._packer = packer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        save = self._save
        if save.report is not None:
            raise StopAsyncIteration
        save.expect(None)
        piece = b""
        try:
            if not save.failure:
                piece = await self._read()
            if not save.failure and not piece:
                self._complete()
        except asyncio.CancelledError:
            if not save.failure:
                save.expect(SILENCE, "whoever read the stream was cut off")
                raise
        except Failed as failed:
            await save.give_up(failed.message)
        except Exception as error:
            # Whatever it was: the tenant must run again, and the reader must know.
            log.exception("save failed")
            await save.give_up(f"{type(error).__name__}: {error}")
        if save.failure:
            raise Unreachable(f"the save failed: {save.failure}")
        if not piece:
            raise StopAsyncIteration
        save.expect(SILENCE, "nobody reads the stream")
        return piece

    async def _read(self) -> bytes:
        """Return the next piece. A task of its own, so that whoever ends the save can end it."""

        async def read() -> bytes:
            return await anext(self._packer, b"")

        self._save.reading = asyncio.create_task(read(), name="save")
        try:
            return await self._save.reading
        finally:
            self._save.reading = None

    def _complete(self) -> None:
        save, packed = self._save, self._packer.result()
        save.report = SaveReport(
            packed.sha256,
            packed.size,
            packed.entries,
            packed.content,
            stable=packed.fingerprint == save.before,
            fingerprint=packed.fingerprint.digest,
            torn=save.torn,
            skipped=tuple(name[:_NAME] for name in packed.skipped[:_NAMED]),
        )
        save.expect(WORD, "nobody said that the snapshot is committed")

    async def close(self) -> None:
        if self._save.report is None and not self._save.failure:
            await self._save.give_up("the stream was not read to its end")
