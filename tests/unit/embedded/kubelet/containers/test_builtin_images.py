"""Containers that are tasks: ended at any moment, they leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.containers.builtin_images import BuiltinContainer, Inside


class Log:
    def __init__(self) -> None:
        self.closed = False

    def write(self, stream: str, data: bytes) -> None:
        del stream, data

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


class Holds:
    """Holds something from its start to the end of `wait`."""

    def __init__(self) -> None:
        self.held = True
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """It has."""

    async def wait(self) -> int:
        try:
            await self._stopping.wait()
        finally:
            self.held = False
        return 0

    async def stop(self) -> None:
        self._stopping.set()


def inside(log: Log) -> Inside:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    pod: Any = SimpleNamespace(name="pod")
    return cast(Inside, SimpleNamespace(clock=clock, container="agent", log=log, pod=pod))


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, 137), (signal.SIGTERM, 0)], ids=["killed", "asked"]
)
async def test_what_it_holds_is_let_go(number: int, code: int, steps: int) -> None:
    """Also if it is killed in the very moment of its start."""
    log, holds = Log(), Holds()
    container = BuiltinContainer(holds, inside(log))
    for _ in range(steps):
        await asyncio.sleep(0)
    container.signal(number)
    assert (await container.wait()).code == code
    assert not holds.held
    assert log.closed
