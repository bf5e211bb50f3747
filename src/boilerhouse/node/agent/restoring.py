"""Restoring: a snapshot into the overlay directories, at most once in the life of a Pod.

POST /restore ─► halt ─► empty ─► unpack ─► verify ─► record (synced) ─► kill, or let go
                  ▲                            │
                  └──── again, still halted ───┘ anything that fails before the record

Until the record is on the disk, whatever happens is repaired by doing it all again: the tenant has
not run since, and the directories are emptied first. Once it is there, the tenant may have run on
what was restored, so it is never done again.

The tenant is killed and not asked to end: one that was asked wrote its empty state over the files
that had just been restored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from boilerhouse.node.agent.freezer.hold import Hold, Why
from boilerhouse.node.agent.freezer.processes import Processes
from boilerhouse.node.agent.protocol import RestoreReport
from boilerhouse.node.agent.record import Baseline, Record, Restored
from boilerhouse.node.agent.settling import Settling, boot
from boilerhouse.platform.archive.clearing import empty
from boilerhouse.platform.archive.failures import BadArchive, Failed
from boilerhouse.platform.archive.model import UNLIMITED, Owners, Packed
from boilerhouse.platform.archive.unpacker import Unpacker
from boilerhouse.platform.archive.workers import Workers
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused

COLD = "cold"
MODES = (COLD, Why.RESTART.value, Why.LIVE.value)
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A file's time of change moves in steps of the kernel's timer. A live tenant runs again only after
# such a step, or its first write could look as old as the restore.
_STEP = 0.02


class Restores:
    """The restore of one instance."""

    def __init__(
        self,
        overlays: Mapping[str, Path],
        owners: Owners,
        hold: Hold,
        record: Record,
        processes: Processes,
        settling: Settling,
        workers: Workers,
    ) -> None:
        self._overlays = overlays
        self._owners = owners
        self._hold = hold
        self._record = record
        self._processes = processes
        self._settling = settling
        self._workers = workers
        self._unpacker: Unpacker | None = None
        self._starting: asyncio.Task[None] | None = None  # of that one, if nobody uses it yet
        self._closed = False

    def make_ready(self) -> None:
        """Have somebody who unpacks before the first restore: it need not wait for that then."""
        if self._unpacker is None and not self._closed:
            self._begin()

    def _begin(self) -> None:
        self._unpacker = Unpacker(
            self._overlays, limits=UNLIMITED, owners=self._owners, workers=self._workers
        )
        self._starting = asyncio.create_task(self._unpacker.start(), name="archive worker")

    async def close(self) -> None:
        """Cut off a restore that is under way: nothing is written any more after this."""
        self._closed = True
        if self._unpacker is not None:
            await self._unpacker.abort()
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)

    async def restore(self, digest: str, mode: str, body: Body) -> RestoreReport:
        """Put a snapshot in place and have the tenant run on it.

        `Refused` if another one is there already, if these bytes are not the snapshot, or if the
        tenant cannot be halted; only the first cannot be tried again.
        """
        if not _DIGEST.fullmatch(digest):
            raise Refused(400, "bad-digest", "a digest is 64 hexadecimal digits")
        if mode not in MODES:
            raise Refused(400, "bad-mode", f"a restore is one of {', '.join(MODES)}")
        if self._hold.turn.locked() and not self._settling.writing:
            raise Refused(409, "busy", "a save or a restore is under way; try again")
        async with self._hold.turn:
            found = self._record.restored
            if found is None:
                self._require_possible(mode)
                found = await self._restore(digest, mode, body)
                already = False
            elif found.digest == digest:
                already = True
            else:
                words = f"{found.digest} was restored here, and there is one restore in a Pod"
                raise Refused(409, "restored-already", words)
            # Also if it was done by an agent or a call that came no further.
            if self._hold.why is Why.RESTART:
                await self._hold.kill()
            elif self._hold.why is Why.LIVE:
                await self._hold.let_go()
            self._settling.begin()
            return RestoreReport(already, found.container, found.skipped)

    def _require_possible(self, mode: str) -> None:
        if mode == COLD and not self._hold.cold:
            words = "the tenant of this instance was not told to wait for a restore"
            raise Refused(409, "not-cold", words)
        if self._hold.why in (Why.SAVE, Why.SAVED):
            raise Refused(409, "saved", "this instance is being saved, or was")

    async def _restore(self, digest: str, mode: str, body: Body) -> Restored:
        if self._closed:
            raise Refused(503, "ending", "the instance ends")
        # Beside the rest: who unpacks, and whose turn it is. Why no worker started tells `feed`.
        if self._starting is None:
            self._begin()
        unpacker, starting, self._starting = self._unpacker, self._starting, None
        assert unpacker is not None and starting is not None, "both were just made, or before"
        container = ""
        try:
            try:
                if mode != COLD:
                    container = await self._halt(Why(mode))
                await empty(self._overlays)
                if mode == Why.RESTART:
                    # Beside the unpacking, and not sooner: until now all the rest waits for this.
                    self._processes.prepare_next()
            finally:
                await asyncio.gather(starting, return_exceptions=True)
            packed = await self._unpack(unpacker, digest, body)
        except BadArchive as bad:
            await empty(self._overlays)
            if bad.code == "too-large":
                raise Refused(413, bad.code, bad.message) from bad
            raise Refused(422, "bad-archive", f"this is no snapshot: {bad.message}") from bad
        except Failed as failed:
            status = 507 if failed.code == "disk-full" else 500
            raise Refused(status, failed.code, failed.message) from failed
        finally:
            await unpacker.abort()
        if mode == Why.LIVE:
            await asyncio.sleep(_STEP)
        restored = Restored(digest, container, packed.skipped, boot())
        baseline = Baseline(digest, packed.fingerprint.digest, until_thaw=False)
        await self._record.write(restored, baseline)
        return restored

    async def _halt(self, why: Why) -> str:
        """Halt the tenant; return the name of its container."""
        naming = asyncio.create_task(asyncio.to_thread(self._processes.container))
        try:
            await self._hold.take(why)
        finally:
            await asyncio.gather(naming, return_exceptions=True)
        return naming.result()

    async def _unpack(self, unpacker: Unpacker, digest: str, body: Body) -> Packed:
        async for piece in body:
            await unpacker.feed(piece)
        packed = await unpacker.finish()
        if packed.sha256 != digest:
            words = f"these are the bytes of {packed.sha256}, not of {digest}"
            raise BadArchive("other-digest", words)
        return packed
