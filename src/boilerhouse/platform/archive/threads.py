"""Two threads of the worker at work on one stream: files in one, gzip and hashes in the other.

    ahead:  produce ─► [a few pieces] ─► who asks
    Behind: put ─► [a few pieces] ─► consume

Compressing and hashing do not hold Python's lock, so on two processors both run at once. What goes
wrong in the second thread is raised in the first.
"""

from __future__ import annotations

# Not through `queue` and `threading`: importing those takes as long as a small restore.
from _queue import SimpleQueue
from _thread import start_new_thread
from collections.abc import Callable

_PIECES = 16  # between the two: fewer, and one waits for the other more often
_ALONE = 32  # pieces until there is a second thread: two that hand little to each other take longer


class _Belt:
    """A queue of limited length."""

    def __init__(self) -> None:
        self._room: SimpleQueue[None] = SimpleQueue()
        self._full: SimpleQueue[bytes | BaseException] = SimpleQueue()
        for _ in range(_PIECES):
            self._room.put(None)

    def put(self, piece: bytes | BaseException) -> None:
        self._room.get()
        self._full.put(piece)

    def get(self) -> bytes | BaseException:
        piece = self._full.get()
        self._room.put(None)
        return piece


def ahead(produce: Callable[[], bytes]) -> Callable[[], bytes]:
    """Return a function that gives what `produce` gives, if it is much a few pieces in advance."""
    belt = _Belt()
    alone = _ALONE

    def work() -> None:
        try:
            while piece := produce():
                belt.put(piece)
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            belt.put(error)
        else:
            belt.put(b"")

    def pull() -> bytes:
        nonlocal alone
        if alone:
            alone -= 1
            if alone:
                return produce()
            start_new_thread(work, ())
        piece = belt.get()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    return pull


class Behind:
    """Hands pieces to `consume` in another thread."""

    def __init__(self, consume: Callable[[bytes], None]) -> None:
        self._consume = consume
        self._belt = _Belt()
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        start_new_thread(self._work, ())

    def put(self, piece: bytes) -> None:
        """Hand over a piece, which is not empty."""
        self._belt.put(piece)

    def end(self) -> None:
        """Wait until everything is consumed; raises what went wrong."""
        self._belt.put(b"")
        error = self._ended.get()
        if error is not None:
            raise error

    def _work(self) -> None:
        failed: BaseException | None = None
        while piece := self._belt.get():
            assert isinstance(piece, bytes)
            if failed is None:
                try:
                    self._consume(piece)
                except BaseException as error:  # noqa: BLE001  raised again by `end`
                    failed = error
        self._ended.put(failed)
