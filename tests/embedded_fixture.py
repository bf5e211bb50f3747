"""The embedded world: our own API server on a directory of its own, called in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from boilerhouse.core.clock import Clock, SystemClock
from boilerhouse.core.names import NAMESPACE
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.provision import provision
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.embedded.kubelet.kubelet import Settings
from boilerhouse.embedded.world import World
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.status import Unavailable
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream, Transport


async def open_world(directory: Path, kubelet: Settings | None = None) -> World:
    """Serve a data directory on a free port, with the product's namespace and definitions."""
    return await World.open(
        directory, port=0, namespace=NAMESPACE, crds=catalogue.crds(), kubelet=kubelet
    )


async def start_server(store: Store, clock: Clock) -> ApiServer:
    """Begin an API server without a port, with the same in it; the caller stops it."""
    server = ApiServer(store, clock, (NAMESPACE,))
    await server.start()
    await provision(InProcess(server), catalogue.crds())
    return server


class EmbeddedWorld:
    """Our own API server on a directory of its own, called in process."""

    name = "embedded"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.resources = AsyncExitStack()
        self.server: ApiServer | None = None
        self.installed: set[str] = {"catalogue"}

    async def open(self, history: int = 10_000) -> None:
        async with AsyncExitStack() as resources:
            store = await Store.open(self.directory, history=history)
            resources.push_async_callback(store.close)
            self.server = await start_server(store, SystemClock())
            resources.push_async_callback(self.server.stop)
            self.resources = resources.pop_all()

    async def close(self) -> None:
        self.server = None
        await self.resources.aclose()

    def transport(self) -> Transport:
        return _ToWhicheverRuns(self)

    async def restart(self) -> None:
        await self.close()
        await self.open()

    @asynccontextmanager
    async def without_history(self) -> AsyncIterator[None]:
        await self.close()
        await self.open(history=1)
        yield
        await self.restart()


class _ToWhicheverRuns:
    """Reaches the server of an embedded world, before and after it was restarted."""

    def __init__(self, world: EmbeddedWorld) -> None:
        self._world = world

    def _inner(self) -> InProcess:
        if self._world.server is None:
            raise Unavailable("the server is down")
        return InProcess(self._world.server)

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        return await self._inner().request(request, timeout=timeout)

    def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        return self._inner().stream(request, read_timeout=read_timeout)

    def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AbstractAsyncContextManager[Socket]:
        return self._inner().socket(request, subprotocols)

    async def close(self) -> None:
        """Nothing is held."""
