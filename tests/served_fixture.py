"""The served world: our own API server behind its HTTP listeners, called through its socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.http import pki, serving
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Transport
from tests.embedded_fixture import EmbeddedWorld


class ServedWorld(EmbeddedWorld):
    """The embedded world behind its HTTP listeners, called through its Unix socket."""

    name = "served"

    async def open(self, history: int = 10_000) -> None:
        await super().open(history)
        assert self.server is not None
        clock = SystemClock()
        made = await asyncio.to_thread(pki.ensure, self.directory / "pki", clock)
        unix = serving.bind_unix(self._socket)
        self.resources.callback(unix.close)
        tcp = serving.bind_tcp("127.0.0.1", 0, None)
        self.resources.callback(tcp.close)
        listeners = serving.Serving(self.server, unix, tcp, made)
        await listeners.start(clock)
        self.resources.push_async_callback(listeners.stop)

    def transport(self) -> Transport:
        return Http(Config(server=f"unix://{self._socket}"))

    @property
    def _socket(self) -> Path:
        return self.directory / "kube.sock"
