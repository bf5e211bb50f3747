"""The listeners of the embedded API: a Unix socket and a TLS port, in one process on one loop.

DIR/kube.sock (0600, no token) ──┐
                                 ├─► uvicorn's protocols ─► asgi.Application ─► ApiServer
127.0.0.1:6443 (TLS, token) ─────┘

What each of them bounds, and how it stops, is in `listening.py`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from boilerhouse.core import connections
from boilerhouse.core.clock import Clock
from boilerhouse.core.supervision import supervised
from boilerhouse.embedded.apiserver.http import pki
from boilerhouse.embedded.apiserver.http.asgi import Application, Handler
from boilerhouse.platform.serving.listening import Listener, ListenError, bind

FIRST_PORT = 6443
PORTS_TRIED = 100
RENEW_CHECK_SECONDS = 12 * 3600.0


class Serving:
    """Every listener of one data directory, from `start` to `stop`."""

    def __init__(self, handler: Handler, unix: socket.socket, tcp: socket.socket, made: pki.Pki):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls.load_cert_chain(made.server)
        self._tls.set_alpn_protocols(["http/1.1"])
        self._pki = made.server.parent
        self._listeners = (
            Listener(
                unix,
                Application(handler, token=None, compress=False),
                connections.KUBERNETES_SOCKET,
            ),
            Listener(
                tcp,
                Application(handler, token=made.token, compress=True),
                connections.KUBERNETES,
                self._tls,
            ),
        )
        self._background: list[asyncio.Task[None]] = []

    async def start(self, clock: Clock, hosts: Sequence[str] = pki.LOOPBACK) -> None:
        for listener in self._listeners:
            await listener.start()
        self._background = [
            asyncio.create_task(supervised("clock of the listeners", self._tick)),
            asyncio.create_task(
                supervised("renewal of certificates", lambda: self._renew(clock, hosts))
            ),
        ]

    async def stop(self) -> None:
        """End watches, let requests in flight finish, close everything; at most STOP_SECONDS."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(listener.stop() for listener in self._listeners))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            for listener in self._listeners:
                await listener.tick()

    async def _renew(self, clock: Clock, hosts: Sequence[str]) -> None:
        """Swap the server's certificate in time; connections made from then on get the new one."""
        while True:
            await asyncio.sleep(RENEW_CHECK_SECONDS)
            if await asyncio.to_thread(pki.renew, self._pki, clock, hosts):
                self._tls.load_cert_chain(self._pki / "server.pem")


def bind_unix(path: Path) -> socket.socket:
    """Bind a Unix socket that only its owner can connect to.

    What lies at the path is a dead process's socket: the data directory's lock is held by us.
    """
    if path.is_socket():
        path.unlink()
    elif path.exists() or path.is_symlink():
        raise ListenError(f"{path} is in the way: it is not a socket; move it away")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode is set by the umask at bind: a chmod afterwards would leave a moment in between.
    umask = os.umask(0o177)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        hint = "; choose a shorter data directory" if "too long" in str(error) else ""
        raise ListenError(f"cannot make the socket {path}: {error}{hint}") from error
    finally:
        os.umask(umask)
    bound.setblocking(False)
    return bound


def bind_tcp(host: str, port: int | None, kept: int | None) -> socket.socket:
    """Bind the TLS port: the one asked for or none, else the kept one, else the first free one."""
    if port is not None:
        return bind(host, [port])
    return bind(host, [*([kept] if kept else []), *range(FIRST_PORT, FIRST_PORT + PORTS_TRIED)])
