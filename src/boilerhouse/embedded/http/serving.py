"""The listeners of the embedded API: a Unix socket and a TLS port, in one process on one loop.

DIR/kube.sock (0600, no token) ──┐
                                 ├─► uvicorn's protocols ─► asgi.Application ─► ApiServer
127.0.0.1:6443 (TLS, token) ─────┘

uvicorn parses; what it leaves open is bounded here: how long a connection may be silent before
its request is whole, how large a header may be, how long a peer without a pulse counts as alive.
Stopping: no new connections, watches end, requests in flight finish, stragglers are cut off.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.http import pki
from boilerhouse.embedded.http.asgi import Application, Handler

FIRST_PORT = 6443
PORTS_TRIED = 100
HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 90
STOP_SECONDS = 5
RENEW_CHECK_SECONDS = 12 * 3600.0


class ListenError(Exception):
    """A listener cannot be opened; the message says which and why."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with an end to waiting and to headers."""

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # uvicorn narrows the parameter the same way: this is never a datagram transport
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        self._wait_for_headers()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._headers_came()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            # The parser turns this into its own error, and uvicorn that into a 400.
            raise ValueError("the request's header is too large")

    def _wait_for_headers(self) -> None:
        self._headers_came()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


class Listener:
    """One bound socket and the uvicorn server behind it."""

    def __init__(
        self, bound: socket.socket, application: Application, tls: ssl.SSLContext | None = None
    ) -> None:
        self.application = application
        self._socket = bound
        config = uvicorn.Config(
            application,
            http=BoundedHttp,
            ws="websockets-sansio",
            ws_max_size=4 * 1024 * 1024,
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        config.load()
        config.ssl = tls
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def start(self) -> None:
        await self.tick()
        await self._server.startup(sockets=[self._socket])

    async def tick(self) -> None:
        """Let uvicorn renew the Date header it sends; due once a second."""
        await self._server.on_tick(0)

    async def stop(self) -> None:
        self.application.end_streams()
        await self._server.shutdown(sockets=[self._socket])


class Serving:
    """Every listener of one data directory, from `start` to `stop`."""

    def __init__(self, handler: Handler, unix: socket.socket, tcp: socket.socket, made: pki.Pki):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls.load_cert_chain(made.server)
        self._tls.set_alpn_protocols(["http/1.1"])
        self._pki = made.server.parent
        self._listeners = (
            Listener(unix, Application(handler, token=None, compress=False)),
            Listener(tcp, Application(handler, token=made.token, compress=True), self._tls),
        )
        self._background: list[asyncio.Task[None]] = []
        # uvicorn reports each refused request and each straggler as an error of its own.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def start(self, clock: Clock, hosts: Sequence[str] = pki.LOOPBACK) -> None:
        for listener in self._listeners:
            await listener.start()
        self._background = [
            asyncio.create_task(self._tick()),
            asyncio.create_task(self._renew(clock, hosts)),
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
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if path.is_socket():
        path.unlink()
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
    wanted = (
        [port]
        if port is not None
        else [*([kept] if kept else []), *range(FIRST_PORT, FIRST_PORT + PORTS_TRIED)]
    )
    try:
        family = {4: socket.AF_INET, 6: socket.AF_INET6}[ipaddress.ip_address(host).version]
    except ValueError as error:
        raise ListenError(f"cannot listen on {host}: not an IP address") from error
    for candidate in wanted:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(bound)
        try:
            bound.bind((host, candidate))
            # A second socket may be bound to the port of a first that does not listen yet.
            bound.listen(2048)
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and candidate != wanted[-1]:
                continue
            raise ListenError(f"cannot listen on {host}:{candidate}: {error.strerror}") from error
        bound.setblocking(False)
        return bound
    raise AssertionError("the last candidate returns or raises")


def _keep_alive(bound: socket.socket) -> None:
    """Notice peers that vanished without a word. Accepted sockets inherit these options."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options: dict[str, Any] = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    options["TCP_USER_TIMEOUT"] = 60_000
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has all of them
            bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # Small answers must not wait for an acknowledgement.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
