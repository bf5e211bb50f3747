"""Overlays ─► Packer ─► pieces of a gzip tar stream, and what it was in the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from boilerhouse.platform.archive.child import Child, packed, places
from boilerhouse.platform.archive.failures import DEEPER, Failed
from boilerhouse.platform.archive.job import Job
from boilerhouse.platform.archive.model import Fingerprint, Owners, Packed
from boilerhouse.platform.archive.workers import EACH_BY_ITSELF, PIECE, Workers


async def fingerprint(
    overlays: Mapping[str, Path], workers: Workers = EACH_BY_ITSELF
) -> Fingerprint:
    """Look at everything in the overlays; raises `Failed` naming what cannot be looked at."""
    try:
        return await _fingerprint(Job("fingerprint", places(overlays)), workers)
    except Failed as failed:
        if failed.code != DEEPER:
            raise
    return await _fingerprint(Job("fingerprint", places(overlays), deep=True), workers)


async def _fingerprint(job: Job, workers: Workers) -> Fingerprint:
    child = await Child.start(job, workers)
    try:
        digest, entries, size = (await child.report())["fingerprint"]
        return Fingerprint(digest, entries, size, job.deep)
    finally:
        await child.kill()


class Packer:
    """An archive of the overlays, as an asynchronous iterator of its bytes.

        async for piece in packer: …
        result = packer.result()

    Only an iterator that ended without an exception has given a whole archive. Files that change or
    vanish meanwhile do no harm: the archive is well-formed, and the result's fingerprint is another
    than the one from before. `Failed` names what cannot be read. `close` it in any case. `deep`: as
    the fingerprint says; only how long it takes depends on it.
    """

    def __init__(
        self,
        overlays: Mapping[str, Path],
        *,
        owners: Owners,
        deep: bool = False,
        workers: Workers = EACH_BY_ITSELF,
    ) -> None:
        self._job = Job("pack", places(overlays), owners.outside, owners.inside, deep=deep)
        self._workers = workers
        self._child: Child | None = None
        self._result: Packed | None = None

    def __aiter__(self) -> Packer:
        return self

    async def __anext__(self) -> bytes:
        if self._result is not None:
            raise StopAsyncIteration
        if self._child is None:
            self._child = await Child.start(self._job, self._workers)
        piece = await self._child.stdout.read(PIECE)
        if piece:
            return piece
        self._result = packed(await self._child.report())
        raise StopAsyncIteration

    def result(self) -> Packed:
        """Return what was packed, after the iterator's end."""
        assert self._result is not None, "asked before the archive's end"
        return self._result

    async def close(self) -> None:
        """End the worker, if it still runs."""
        if self._child is not None:
            await self._child.kill()
