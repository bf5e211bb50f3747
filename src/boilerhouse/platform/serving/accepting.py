"""Accept connections up to a limit, and pause at it instead of running out of descriptors.

listening socket ─► Acceptor ─► CountedSocket ─► whoever serves it
                       └─ full: the oldest idle connection is closed for the new one;
                          none is idle: the kernel's backlog waits until one ends

The event loop's own servers accept whatever comes, until the process has no descriptor left for
anything else.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections.abc import Callable
from typing import Any

from boilerhouse.core.connections import ConnectionLimit

ACCEPTS_PER_TURN = 16  # connections accepted in one turn of the loop
ROOM_PART = 16  # of the limit, one part is closed to make room: a flood costs fewer turns
OUT_OF_DESCRIPTORS_SECONDS = 0.1  # until the next try


class CountedSocket(socket.socket):
    """An accepted connection; it counts against its limit until its descriptor is closed.

    Both event loops end a connection by closing its socket, or by detaching what they close.
    """

    def __init__(self, accepted: socket.socket, limit: ConnectionLimit) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._limit: ConnectionLimit | None = limit
        limit.take()

    def close(self) -> None:
        super().close()
        self._give_back()

    def detach(self) -> int:
        descriptor = super().detach()
        self._give_back()
        return descriptor

    def __del__(self) -> None:
        self.close()

    def _give_back(self) -> None:
        limit = self._limit
        if limit is not None and self.fileno() < 0:
            self._limit = None
            limit.give_back()


class Acceptor:
    """Accepts on a socket that listens, from `start` to `stop`.

    `connected` gets each connection. `make_room` closes an idle one, and says whether there was.
    """

    def __init__(
        self,
        listening: socket.socket,
        limit: ConnectionLimit,
        connected: Callable[[CountedSocket], Any],
        make_room: Callable[[], bool],
    ) -> None:
        self._socket = listening
        self._limit = limit
        self._connected = connected
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        # Of its own: what is accepted belongs to nobody whose end happened to make room for it.
        self._context = contextvars.copy_context()
        self._accepting = False
        self._stopped = False

    def start(self) -> None:
        if not self._stopped and not self._accepting:
            self._accepting = True
            self._context.run(self._loop.add_reader, self._socket, self._accept)

    def stop(self) -> None:
        """Accept no more; the socket is still the caller's."""
        self._stopped = True
        self._pause()

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        if self._limit.is_full():
            self._wait_for_room()
            return
        for _ in range(ACCEPTS_PER_TURN):
            if self._limit.is_full():
                return  # if there is another one, the loop says so in its next turn
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptor or no memory: others have taken what was left for connections.
                self._limit.paused += 1
                self._free_some()
                self._pause()
                self._loop.call_later(OUT_OF_DESCRIPTORS_SECONDS, self.start)
                return
            accepted.setblocking(False)
            self._connected(CountedSocket(accepted, self._limit))

    def _wait_for_room(self) -> None:
        """Pause until a connection ends; those that only wait for a request end now."""
        if not self._free_some():
            self._limit.paused += 1
        self._pause()
        self._limit.when_room(self.start)

    def _free_some(self) -> bool:
        freed = 0
        while freed < max(1, self._limit.most // ROOM_PART) and self._make_room():
            freed += 1
        self._limit.made_room += freed
        return freed > 0
