"""An embedded API on a store in a temporary directory, reached without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from boilerhouse.core.clock import Clock, SystemClock
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from tests.contract.driver import Api


class Embedded:
    """A running server, its store, and calls in the namespace `default`."""

    def __init__(self, store: Store, server: ApiServer) -> None:
        self.store = store
        self.server = server
        self.api = Api(InProcess(server), "default")


class Start(Protocol):
    def __call__(
        self, *, history: int = ..., clock: Clock | None = ...
    ) -> AbstractAsyncContextManager[Embedded]: ...


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Begin a server on the test's own data; may be called again after the first has ended."""

    @asynccontextmanager
    async def begin(
        *, history: int = 10_000, clock: Clock | None = None
    ) -> AsyncIterator[Embedded]:
        store = await Store.open(tmp_path / "data", history=history)
        server = ApiServer(store, clock or SystemClock())
        await server.start()
        try:
            yield Embedded(store, server)
        finally:
            await server.stop()
            await store.close()

    return begin


@pytest.fixture
async def embedded(start: Start) -> AsyncIterator[Embedded]:
    async with start() as running:
        yield running


@pytest.fixture
def api(embedded: Embedded) -> Api:
    return embedded.api
