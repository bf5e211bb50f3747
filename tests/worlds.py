"""The worlds a test can run in: a real API server, and ours, in process and over HTTP.

World ──► transport() ──► Api (tests/contract/driver.py) or kube.client.Client

Both can be restarted and made to forget their past, because what clients see then is part of the
contract. A world that is absent skips with one sentence; with CI=true its absence is a failure.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NoReturn, Protocol

import pytest
from cluster.api import ApiWorld
from cluster.build import API, missing
from cluster.places import Places

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.http import pki, serving
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.provision import provision
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.config import Config, from_kubeconfig
from boilerhouse.platform.kube.status import Unavailable
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream, Transport


class World(Protocol):
    """One API server for the length of a test."""

    name: str
    installed: set[str]  # definitions that a test need not install again

    def transport(self) -> Transport:
        """Return a way to reach it; whoever asks closes it."""
        ...

    async def restart(self) -> None:
        """Die at once and come back, at the same address and with the same data."""
        ...

    def without_history(self) -> AbstractAsyncContextManager[None]:
        """Forget every past revision for a while, so that what refers to one has expired."""
        ...


class RealWorld:
    """kube-apiserver, etcd and the controllers."""

    name = "real"

    def __init__(self, processes: ApiWorld) -> None:
        self._processes = processes
        self.installed: set[str] = set()

    def transport(self) -> Transport:
        return Http(from_kubeconfig(self._processes.kubeconfig))

    async def restart(self) -> None:
        await asyncio.to_thread(self._processes.kill_apiserver)
        await asyncio.to_thread(self._processes.start_apiserver)

    @asynccontextmanager
    async def without_history(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self._processes.forget_history)
        yield


class EmbeddedWorld:
    """Our own API server on a directory of its own, called in process."""

    name = "embedded"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._resources = AsyncExitStack()
        self.server: ApiServer | None = None
        self.installed: set[str] = {"catalogue"}

    async def open(self, history: int = 10_000) -> None:
        async with AsyncExitStack() as resources:
            store = await Store.open(self._directory, history=history)
            resources.push_async_callback(store.close)
            server = ApiServer(store, SystemClock())
            resources.push_async_callback(server.stop)
            await server.start()
            await provision(InProcess(server), catalogue.crds())
            self.server = server
            self._resources = resources.pop_all()

    async def close(self) -> None:
        self.server = None
        await self._resources.aclose()

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


class ServedWorld(EmbeddedWorld):
    """The same behind its HTTP listeners, called through its Unix socket."""

    name = "served"

    async def open(self, history: int = 10_000) -> None:
        await super().open(history)
        assert self.server is not None
        clock = SystemClock()
        made = await asyncio.to_thread(pki.ensure, self._directory / "pki", clock)
        unix = serving.bind_unix(self._socket)
        self._resources.callback(unix.close)
        tcp = serving.bind_tcp("127.0.0.1", 0, None)
        self._resources.callback(tcp.close)
        listeners = serving.Serving(self.server, unix, tcp, made)
        await listeners.start(clock)
        self._resources.push_async_callback(listeners.stop)

    def transport(self) -> Transport:
        return Http(Config(server=f"unix://{self._socket}"))

    @property
    def _socket(self) -> Path:
        return self._directory / "kube.sock"


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


def absent(sentence: str) -> NoReturn:
    """Skip the test, or fail it where everything is expected to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and {sentence}", pytrace=False)
    pytest.skip(sentence)


def require_api_binaries() -> None:
    """Skip unless a real API server has been built."""
    if not missing(Places.user(), API):
        return
    if shutil.which("go") is None:
        absent("a real kube-apiserver needs the Go toolchain, which is not in PATH")
    absent("a real kube-apiserver must be built first: run `python -m cluster build`")


def clean(directory: Path) -> None:
    """Remove what a world wrote; keep it when asked to, for reading the logs."""
    if not os.environ.get("KEEP_WORLDS"):
        shutil.rmtree(directory, ignore_errors=True)
