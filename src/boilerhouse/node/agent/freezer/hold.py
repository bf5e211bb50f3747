"""Whether the tenant is halted, and what for: the one place from which it is frozen and thawed.

save    ─► take(SAVE) ─► keep() once the snapshot is committed: it never needs to run again
restore ─► take(RESTART | LIVE) ─► kill() | let_go()
thaw, any failure of a save ─► let_go()
disk full (disk/guard.py) ─► fill() ─► make_room()

A full disk gives way to a save or a restore, which halt the tenant anyway, and takes it back when
they let go of it.

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

from boilerhouse.node.agent.freezer.processes import Processes
from boilerhouse.node.agent.record import Record, draft_of, unwritten
from boilerhouse.platform.processes.freezing import Restless
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

_FILE = "hold"


class Why(StrEnum):
    NOTHING = ""
    SAVE = "save"  # a snapshot is being made
    SAVED = "saved"  # it is committed: what the tenant did now would be lost
    RESTART = "restart"  # a snapshot is being restored; then it is killed and begins anew
    LIVE = "live"  # a snapshot is being restored; then it goes on
    FULL = "full"  # its disk is: commands may run in it, to clean up


class Hold:
    """The tenant's standstill. `turn` is for whoever changes it, or what depends on it."""

    def __init__(
        self, processes: Processes, record: Record, directory: Path, *, awaited: bool
    ) -> None:
        """Read the note, which blocks. `awaited`: the tenant starts only after a restore."""
        self.turn = asyncio.Lock()
        self.saved = asyncio.Event()
        self.full = False  # whoever lets go of the tenant leaves it frozen for its disk
        self.halting = False  # a save or restore has begun, and the tenant does not stand yet
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
            elif self.why is Why.FULL:
                await self._recover_full()
            elif self.why is not Why.NOTHING:
                await self._processes.freeze()
        except Restless as error:
            # Whoever asks next tries again; until then the startup probe says that we wait.
            log.warning("the tenant could not be halted again: %s", error)
        if self.why is Why.SAVED:
            self.saved.set()

    async def _recover_full(self) -> None:
        """Keep a tenant frozen that runs; one that is to start could not, and is counted later."""
        if await asyncio.to_thread(self._processes.of_tenant):
            self.full = True
        await self.let_go()

    async def fill(self, *, allow_exec: bool = True) -> None:
        """Halt the tenant, whose disk is full; whether commands may run in it. May be repeated.

        One that is halted for something else stays so, and is this when that is over. `Refused` if
        it cannot be halted, and then it runs.
        """
        async with self.turn:
            if self.why in (Why.NOTHING, Why.FULL):
                try:
                    await self._freeze_full(allow_exec=allow_exec)
                except Restless as error:
                    raise Refused(503, "cannot-freeze", str(error)) from None
            self.full = True

    async def make_room(self) -> None:
        """Let a tenant run on that was halted for its disk. May be repeated."""
        async with self.turn:
            self.full = False
            if self.why is Why.FULL:
                await self.let_go()

    async def _freeze_full(self, *, allow_exec: bool = True) -> None:
        try:
            await self._say(Why.FULL)
        except Refused as error:
            # The disk may be full to the last block, which is what this is against. An agent that
            # comes after this one counts, and freezes it again.
            log.warning("%s", error)
            self.why = Why.FULL
        try:
            await self._processes.freeze(allow_exec=allow_exec)
        except BaseException:
            self.full = False
            await self._processes.thaw()
            await self._say(Why.NOTHING)
            raise

    async def take(self, why: Why) -> None:
        """Halt the tenant; `Refused` if it cannot be, and then it runs."""
        before = self.why
        await self._say(why)
        self.saved.clear()
        if self.restoring:
            self.full = False  # what filled the disk is about to go
        self.halting = True
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
        finally:
            self.halting = False

    async def keep(self) -> None:
        """Note that the snapshot is committed."""
        await self._say(Why.SAVED)
        self.saved.set()

    async def let_go(self) -> None:
        """Let the tenant run, if its disk is not full. May be repeated."""
        self.saved.clear()
        await self._record.thawing()
        if self.full:
            try:
                await self._freeze_full()
            except Restless as error:
                log.warning("the tenant could not be kept frozen: %s", error)
            return
        await self._processes.thaw()
        await self._say(Why.NOTHING)

    async def kill(self) -> None:
        """Kill what is halted; kubelet starts it again, and its new files are counted then."""
        self.full = False
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
