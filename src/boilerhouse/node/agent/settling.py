"""Whether restored files are on the disk, and what it means if a power loss came before that.

restore ─► record (boot, not settled) ─► the tenant runs ─► a moment ─► syncfs ─► record (settled)
               └─► another boot, and never settled ─► torn: a save of it replaces nothing

A restore would take several times as long if it waited for the disk, and hardly ever would that
matter: only a machine that loses its power within seconds of it. Then files may be there by name
and without content. What an instance saves after that is kept beside the good version, never in its
place.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from boilerhouse.node.agent.overlays import DIRECTORY
from boilerhouse.node.agent.record import Record
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

PAUSE = 1.0  # seconds: a disk that is busy with this would hold up who waits for the tenant
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_libc = ctypes.CDLL(None, use_errno=True)


def boot() -> str:
    """Return what names this run of the machine."""
    return _BOOT.read_text().strip()


def sync(directories: Iterable[Path]) -> None:
    """Have everything on the disk that is in these directories' file systems. Blocks."""
    for directory in directories:
        opened = os.open(directory, DIRECTORY)
        try:
            if _libc.syncfs(opened) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(directory))
        finally:
            os.close(opened)


class Settling:
    """Settles the restore of one instance. `turn` is whoever may write the record now."""

    def __init__(self, record: Record, turn: asyncio.Lock, directories: Iterable[Path]) -> None:
        self._record = record
        self._turn = turn
        self._directories = tuple(directories)
        self._task: asyncio.Task[None] | None = None
        self.writing = False  # has the turn, for a moment: whoever finds it taken can wait

    @property
    def torn(self) -> bool:
        """Whether the restored files may have been lost in part."""
        restored = self._record.restored
        return restored is not None and not restored.settled and restored.boot != boot()

    def begin(self) -> None:
        """Settle what is not, beside everything else; a torn restore stays what it is."""
        restored = self._record.restored
        if restored is not None and not restored.settled and not self.torn and self._task is None:
            self._task = asyncio.create_task(self._settle(), name="restored files to the disk")

    async def close(self) -> None:
        """Leave it for the next agent of this instance."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _settle(self) -> None:
        await asyncio.sleep(PAUSE)
        try:
            await asyncio.to_thread(sync, self._directories)
        except OSError as error:
            log.warning("restored files may not be on the disk: %s", error)
            return
        async with self._turn:
            restored = self._record.restored
            assert restored is not None, "a restore is never taken back"
            self.writing = True
            try:
                await self._record.write(replace(restored, settled=True), self._record.baseline)
            except Refused as error:
                log.warning("restored files are on the disk, which cannot be noted: %s", error)
            finally:
                self.writing = False
