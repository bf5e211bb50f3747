"""What Pods leave on the machine: removed when they are gone, and tried again if it fails.

    a Pod ends ──────────────► clean ─► DIR/pods/<uid>, memory, identity ─► nothing left
    start: found, not alive ─► sweep ─┘          └► it fails: named in log, Event and health,
                                                    tried again with back-off

One Pod's files are never a reason for anything else not to start: what cannot be removed stays
where it is (no other Pod ever has that uid), keeps the identity that its files belong to, and
everything else goes on. A start does not wait for what earlier Pods left, however much that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.backoff import Backoff
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.kernel.trees import remove_tree
from boilerhouse.platform.files.removal import Interrupted

_FIRST_SECONDS, _LAST_SECONDS = 5.0, 3600.0  # between two tries
_TURN = 10.0  # seconds until others have their turn

log = structlog.get_logger(__name__)


class _Left:
    """What one Pod left: how often it was tried, and why it is still there."""

    def __init__(self) -> None:
        self.why = ""
        self.due = 0.0  # of the event loop's clock
        self.backoff = Backoff(first=_FIRST_SECONDS, longest=_LAST_SECONDS)


class Leftovers:
    """`run` it beside the workers. `tell` hears a sentence about what cannot be removed."""

    def __init__(
        self,
        clock: Clock,
        directory: Path,
        memory: Memory,
        forget: Callable[[str], None],
        tell: Callable[[str], None],
        removed: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        """`removed` is called in a thread, once a Pod's directories are gone."""
        self._clock = clock
        self._directory = directory
        self._memory = memory
        self._forget = forget
        self._tell = tell
        self._removed = removed
        self._left: dict[str, _Left] = {}
        self._news = asyncio.Event()
        self._stopped = False

    def warnings(self) -> list[str]:
        """Say what could not be removed: to anybody who asks, so without names of files."""
        return [
            f"what Pod {uid} left cannot be removed and is set aside: the log and an Event of the "
            "Node say why"
            for uid, left in self._left.items()
            if left.why
        ]

    def sweep(self, uids: set[str]) -> None:
        """Have `run` remove what is there of Pods that are gone."""
        for uid in sorted(uids):
            self._left.setdefault(uid, _Left())
        self._news.set()

    async def clean(self, uid: str) -> None:
        """Remove what a Pod had; what cannot be removed now is tried again later."""
        left = self._left.get(uid)
        try:
            await asyncio.to_thread(self._remove, uid)
            self._forget(uid)
        except Interrupted:
            self.sweep({uid})  # so large a tree must not keep others waiting
        except Exception as error:
            # Whatever it is: it is about one Pod that is gone, and concerns no other.
            log.error("kubelet.leftover", path=str(self._directory / uid), exc_info=True)
            self._failed(uid, left or _Left(), str(error) or type(error).__name__)
        else:
            self._left.pop(uid, None)
            if left is not None:
                log.info("kubelet.swept", uid=uid)

    def stop(self) -> None:
        """Interrupt what is being removed; the next start finds it."""
        self._stopped = True

    def _remove(self, uid: str) -> None:
        """Remove a Pod's directories, as far as one turn goes."""
        end = self._clock.monotonic() + _TURN

        def go_on() -> bool:
            return not self._stopped and self._clock.monotonic() < end

        remove_tree(self._directory / uid, go_on)
        self._memory.remove(uid, go_on=go_on)
        self._removed(uid)

    async def run(self) -> None:
        """Remove what was left, and try again what could not be removed."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            for uid in [uid for uid, left in self._left.items() if left.due <= loop.time()]:
                await self.clean(uid)
            due = min((left.due for left in self._left.values()), default=None)
            try:
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            except TimeoutError:
                pass

    def _failed(self, uid: str, left: _Left, why: str) -> None:
        first = left.why != why
        left.why = why
        left.due = asyncio.get_running_loop().time() + left.backoff.again()
        self._left[uid] = left
        self._news.set()
        if first:
            self._tell(self._words(uid, why))

    def _words(self, uid: str, why: str) -> str:
        return (
            f"what Pod {uid} left in {self._directory / uid} is set aside: {why}; it is tried "
            "again, and everything else goes on: remove it by hand, or what keeps it"
        )
