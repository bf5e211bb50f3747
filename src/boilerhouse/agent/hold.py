"""Whether the tenant is halted, and what for: the one place from which it is frozen and thawed.

save    ─► take(SAVE) ─► keep() once the snapshot is committed: it never needs to run again
restore ─► take(RESTART | LIVE) ─► kill() | let_go()
thaw, any failure of a save ─► let_go()

The reason is noted in the agent's own volume before anybody is halted, and struck out after they
run again: an agent that was killed in between knows from it what to do with a tenant that it finds
halted. A power loss ends the tenant as well, so the note need not outlive one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from enum import StrEnum
from pathlib import Path

from boilerhouse.agent.freezing import Restless
from boilerhouse.agent.processes import Processes
from boilerhouse.agent.protocol import Refused
from boilerhouse.agent.record import Record, draft_of, unwritten

log = logging.getLogger(__name__)

_FILE = "hold"


class Why(StrEnum):
    NOTHING = ""
    SAVE = "save"  # a snapshot is being made
    SAVED = "saved"  # it is committed: what the tenant did now would be lost
    RESTART = "restart"  # a snapshot is being restored; then it is killed and begins anew
    LIVE = "live"  # a snapshot is being restored; then it goes on


class Hold:
    """The tenant's standstill. `turn` is for whoever changes it, or what depends on it."""

    def __init__(
        self, processes: Processes, record: Record, directory: Path, *, awaited: bool
    ) -> None:
        """Read the note, which blocks. `awaited`: the tenant starts only after a restore."""
        self.turn = asyncio.Lock()
        self.saved = asyncio.Event()
        self._processes = processes
        self._record = record
        self._awaited = awaited
        self._note = directory / _FILE
        try:
            self.why = Why(self._note.read_text())
        except FileNotFoundError:
            self.why = Why.NOTHING

    @property
    def restoring(self) -> bool:
        """Whether a restore into a running instance has begun and not come to its end."""
        return self.why in (Why.RESTART, Why.LIVE)

    @property
    def unrestored(self) -> bool:
        """Whether what is in the overlay directories is not the tenant's data, or not all of it."""
        return self._record.restored is None and (self._awaited or self.restoring)

    @property
    def cold(self) -> bool:
        """Whether the tenant has not started and will not, until there was a restore."""
        return self._record.restored is None and self._awaited

    def require_restored(self) -> None:
        """Raise `Refused` while half a restore is in the overlay directories.

        Saved now, it would replace a good snapshot; and a tenant that ran now would see it.
        """
        if self.unrestored or self.restoring:
            words = "a restore is awaited, or has begun and not ended"
            raise Refused(409, "not-restored", words)

    async def recover(self) -> None:
        """Go on where an agent before this one was cut off."""
        restored = self._record.restored is not None
        try:
            if self.why is Why.SAVE:
                await self.let_go()  # nobody will ever ask for the rest of that stream
            elif restored and self.why is Why.RESTART:
                await self.kill()
            elif restored and self.why is Why.LIVE:
                await self.let_go()
            elif self.why is not Why.NOTHING:
                await self._processes.freeze()
        except Restless as error:
            # Whoever asks next tries again; until then the startup probe says that we wait.
            log.warning("the tenant could not be halted again: %s", error)
        if self.why is Why.SAVED:
            self.saved.set()

    async def take(self, why: Why) -> None:
        """Halt the tenant; `Refused` if it cannot be, and then it runs."""
        before = self.why
        await self._say(why)
        self.saved.clear()
        try:
            await self._processes.freeze()
        except BaseException as error:
            if before in (Why.RESTART, Why.LIVE):
                await self._say(before)  # directories are empty: that stays so, until restored
            else:
                await self.let_go()
            if isinstance(error, Restless):
                raise Refused(503, "cannot-freeze", str(error)) from None
            raise

    async def keep(self) -> None:
        """Note that the snapshot is committed."""
        await self._say(Why.SAVED)
        self.saved.set()

    async def let_go(self) -> None:
        """Let the tenant run. May be repeated."""
        self.saved.clear()
        await self._record.thawing()
        await self._processes.thaw()
        await self._say(Why.NOTHING)

    async def kill(self) -> None:
        """Kill what is halted; kubelet starts it again."""
        await self._processes.kill()
        await self._say(Why.NOTHING)

    async def _say(self, why: Why) -> None:
        if why != self.why:
            try:
                await asyncio.to_thread(_write, self._note, why)
            except OSError as error:
                raise unwritten(error) from error
            self.why = why


def _write(note: Path, why: Why) -> None:
    if why is Why.NOTHING:
        with contextlib.suppress(FileNotFoundError):
            note.unlink()
        return
    with draft_of(note) as draft:
        draft.write_text(why)
