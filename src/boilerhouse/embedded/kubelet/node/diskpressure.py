"""Watches the room on the data directory's disk, and keeps the control plane able to write.

    each second: statvfs ─► too little? ─► pressed: Node condition, scheduler, health, log, metric
                       │                └─► growth: whoever writes on is frozen (disk/guard.py)
                       └─► nearly none? ─► a few pieces of the reserve (ballast.py)
    room again ─► the reserve is filled ─► not pressed

A look costs microseconds. It never raises: a disk that cannot be looked at is told in the log, and
looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from prometheus_client import Gauge

from boilerhouse.embedded.kubelet.node.diskroom import Marks, Room, look, marks_for
from boilerhouse.platform.files.ballast import Ballast
from boilerhouse.platform.files.quota import DiskSpace

log = structlog.get_logger(__name__)

EVERY = 1.0
# The reserve keeps this fraction of itself free, and as many inodes, while it lasts.
KEPT_FREE = 16
INODES_KEPT_FREE = 16
# Given up at a look, at most: whoever fills the disk must not get all of it before it is stopped.
PIECES_AT_ONCE = 4
# Made at a look, at most: where a file system cannot allocate, each is written.
PIECES_MADE_AT_ONCE = 16
# Of the room on a disk that is nearly full at the start, this fraction is kept back.
FIRST_SHARE = 4
# While the disk is nearly full each instance may grow by this fraction of the reserve, and of the
# inodes at which that began: eight that fill it together get a quarter of the reserve.
GROWTH = 32
FEWEST_INODES = 64

FREE_BYTES = Gauge("boilerhouse_data_free_bytes", "Free bytes of the data directory's disk.")
FREE_INODES = Gauge("boilerhouse_data_free_inodes", "Free inodes of the data directory's disk.")
PRESSED = Gauge("boilerhouse_data_pressure", "1 while the data directory's disk is nearly full.")
RESERVE = Gauge("boilerhouse_data_reserve_bytes", "What is kept back for the control plane.")


class DiskPressure:
    """`look` once, then `run` it. `pressed` and `words` say how it is."""

    def __init__(self, data: Path, ballast: Ballast) -> None:
        self._data = data
        self._ballast = ballast
        self._marks = Marks(0, 0)
        self._room = Room(0, None)
        self._listeners: list[Callable[[bool], None]] = []
        self._missing = 0  # pieces of the reserve, at the last look
        # Called on the loop with the bytes and inodes of the reserve that were given up.
        self.reserve_changed: Callable[[int, int], None] = lambda size, inodes: None
        self._blind = False
        self._filling = False
        self.pressed = False

    @property
    def growth(self) -> DiskSpace | None:
        """How much more each instance may use now; None if the disk is not nearly full."""
        if not self.pressed:
            return None
        inodes = max(FEWEST_INODES, self._marks.inodes // GROWTH)
        return DiskSpace(self._ballast.size // GROWTH, inodes)

    @property
    def words(self) -> str:
        """Say what is wrong, for people; empty if nothing is."""
        if not self.pressed:
            return ""
        inodes = "" if self._room.inodes is None else f" and {self._room.inodes} inodes"
        return (
            f"the disk of {self._data} is nearly full ({self._room.bytes >> 20} MiB{inodes} free):"
            " no new instances start, and whoever writes on is frozen; make room, destroy what is"
            " not needed, or keep less back (up --reserve)"
        )

    def subscribe(self, hear: Callable[[bool], None]) -> None:
        """Have `hear` called on the loop when the pressure begins or ends."""
        self._listeners.append(hear)

    async def open(self) -> None:
        """Find the reserve of an earlier life, and look for the first time; `run` fills it."""
        await asyncio.to_thread(self._ballast.open)
        self._marks = await asyncio.to_thread(marks_for, self._data, self._ballast.size)
        await self.look()

    async def close(self) -> None:
        """Keep nothing back any more."""
        await asyncio.to_thread(self._ballast.remove)

    async def run(self) -> None:
        self._filling = True
        if self.pressed:
            # All of it is more than there is room for; some is better than nothing.
            await asyncio.to_thread(self._ballast.fill, self._room.bytes // FIRST_SHARE)
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Look at the disk and do what follows from it."""
        try:
            room, pressed = await asyncio.to_thread(self._look)
        except OSError as error:
            if not self._blind:
                log.warning("disk.unseen", directory=str(self._data), error=str(error))
            self._blind = True
            return
        self._blind = False
        self._room = room
        FREE_BYTES.set(room.bytes)
        FREE_INODES.set(-1 if room.inodes is None else room.inodes)
        given = self._ballast.missing - self._missing
        self._missing += given
        if given:
            self.reserve_changed(given * self._ballast.piece, given)
        RESERVE.set(self._ballast.size - self._ballast.missing * self._ballast.piece)
        PRESSED.set(pressed)
        if pressed == self.pressed:
            return
        self.pressed = pressed
        tell = log.warning if pressed else log.info
        tell(
            "disk.pressure" if pressed else "disk.pressure_over",
            directory=str(self._data),
            free_bytes=room.bytes,
            free_inodes=room.inodes,
        )
        for hear in self._listeners:
            hear(pressed)

    def _look(self) -> tuple[Room, bool]:
        """Return the room, and whether it is too little; with the reserve as it should be."""
        ballast = self._ballast
        given = 0
        room = look(self._data)
        while self._nearly_none(room) and given < PIECES_AT_ONCE and ballast.give_up():
            given += 1
            room = look(self._data)
        if given:
            left = ballast.count - ballast.missing
            log.warning("reserve.given_up", directory=str(ballast.directory), pieces_left=left)
        missing = ballast.missing
        whole = room.without(missing * ballast.piece, missing)
        pressed = self._marks.pressed(whole, before=self.pressed)
        if missing and not pressed and self._filling:
            ballast.fill(min(missing, PIECES_MADE_AT_ONCE) * ballast.piece)
            room = look(self._data)
        return room, pressed

    def _nearly_none(self, room: Room) -> bool:
        if room.bytes < self._ballast.size // KEPT_FREE:
            return True
        return room.inodes is not None and room.inodes < INODES_KEPT_FREE
