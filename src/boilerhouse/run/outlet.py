"""What a server says: handed to a thread, so that saying it can neither fail nor take time.

write ─► lines that wait (bounded) ─► thread ─► descriptor
              └─ no room, or refused: counted ─► one line that says how many, when it works again

A pipe whose reader has gone, a full disk, a reader that sleeps: none of them may stop what the
line only tells about. Descriptors are written without Python's buffers: what could not be written
must not come up again, as an error, when the interpreter ends.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

# Bytes that may wait for a slow reader.
ROOM = 1 << 20
# Seconds before the thread waits to be woken again: to wake it costs who writes more than a line.
LINGER = 0.05
# Seconds that an exit waits for a reader.
PATIENCE = 1.0


class Outlet:
    """A descriptor that takes text from any thread. `lost` words how many pieces were dropped."""

    def __init__(self, descriptor: int, lost: Callable[[int], str] | None = None) -> None:
        self.lost = lost
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._refused = False  # the last piece was
        self._writing = False
        self._changed = threading.Condition()  # reentrant: a finalizer may log in our midst
        self._hurry = threading.Event()  # somebody waits until all is written
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Take a piece of text, as a rule a line; never waits, never raises."""
        piece = text.encode("utf-8", "replace")
        with self._changed:
            if self._size + len(piece) > ROOM:
                self._dropped += 1
                return
            self._waiting.append(piece)
            self._size += len(piece)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """What is written is on its way already; here because files have it."""

    def drain(self, seconds: float = PATIENCE) -> None:
        """Wait until all is written, but not for ever: at an exit."""
        self._hurry.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing, seconds)
        self._hurry.clear()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                last = not self._waiting
            if last:
                self._hurry.wait(LINGER)
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                piece = self._waiting.popleft()
                self._writing = True
            told = self._tell_losses() if self._refused else True
            self._refused = not (told and self._put(piece))
            with self._changed:
                self._size -= len(piece)
                self._dropped += self._refused
                last = not self._waiting
            if last and not self._refused:
                self._tell_losses()

    def _tell_losses(self) -> bool:
        with self._changed:
            dropped = self._dropped
        if not dropped or self.lost is None:
            return True
        if not self._put(self.lost(dropped).encode()):
            return False
        with self._changed:
            self._dropped -= dropped
        return True

    def _put(self, piece: bytes) -> bool:
        while piece:
            try:
                piece = piece[os.write(self._descriptor, piece) :]
            except BlockingIOError:
                # Somebody who shares the descriptor has made it so; this thread may wait.
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True


STDOUT = Outlet(1)
STDERR = Outlet(2)


def complain(sentence: str) -> None:
    """Say on stderr what went wrong, in one sentence, as every command does."""
    STDERR.write(f"boilerhouse: {sentence}\n")
