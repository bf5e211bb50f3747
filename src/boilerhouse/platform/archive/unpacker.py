"""Pieces of a gzip tar stream ─► Unpacker ─► overlays; and emptying them before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from boilerhouse.platform.archive.child import Child, packed, places
from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.job import Job
from boilerhouse.platform.archive.model import Limits, Owners, Packed
from boilerhouse.platform.archive.packer import fingerprint
from boilerhouse.platform.archive.workers import EACH_BY_ITSELF, Workers


class Unpacker:
    """Fills empty overlays from an archive that may be hostile.

    `BadArchive` or `Failed` from any method: the overlays hold a part of it, and must be emptied
    before they are used. Call `abort` in any case; after `finish` it does nothing.
    """

    def __init__(
        self,
        overlays: Mapping[str, Path],
        *,
        limits: Limits,
        owners: Owners,
        workers: Workers = EACH_BY_ITSELF,
    ) -> None:
        self._overlays = overlays
        self._workers = workers
        self._job = Job(
            "unpack",
            places(overlays),
            owners.outside,
            owners.inside,
            limits=(limits.entries, limits.content),
        )
        self._child: Child | None = None
        self._aborted = False

    async def start(self) -> None:
        """Start the worker, which takes a moment: worth doing before the first bytes are there."""
        if self._child is None and not self._aborted:
            self._child = await Child.start(self._job, self._workers)
        if self._aborted:
            await self.abort()
            raise Failed("cut-off", "the restore was given up")

    async def feed(self, piece: bytes) -> None:
        """Hand over some bytes; waits while the worker has enough to do."""
        await self.start()
        assert self._child is not None
        try:
            self._child.stdin.write(piece)
            await self._child.stdin.drain()
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as error:
            # It ended early, and says why. (RuntimeError: uvloop, once it has noticed.)
            await self._child.report()
            raise Failed("cut-off", "the archive's worker took no more of it") from error

    async def finish(self) -> Packed:
        """Say that this was all, and wait until all of it is in place."""
        await self.start()
        assert self._child is not None
        self._child.stdin.close()
        report = await self._child.report()
        self._child, self._aborted = None, True  # it ends by itself, and changes nothing any more
        if "fingerprint" not in report:  # the tenant's uid may not look, root may
            seen = await fingerprint(self._overlays, self._workers)
            report["fingerprint"] = (seen.digest, seen.entries, seen.bytes)
        return packed(report)

    async def abort(self) -> None:
        """End the worker, if it still runs, and start none any more; nothing is written then."""
        self._aborted = True
        if self._child is not None:
            await self._child.kill()
