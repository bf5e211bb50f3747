"""One bound socket and the server behind it: what all our HTTP listeners have in common.

socket ─► uvicorn's protocols, bounded ─► an ASGI application

uvicorn parses; what it leaves open is bounded here: how long a header may take and how large it
may be, how long a body may be silent, how long a peer without a pulse counts as alive.

    connected ─► first byte … header whole    HEADER_SECONDS each
    header whole ─► body whole                BODY_SECONDS from one piece to the next
    answered before the body is whole         BODY_SECONDS for all the rest
    idle between requests                     KEEP_ALIVE_SECONDS
    TLS handshake                             60 s, the event loop's own bound

Stopping: no new connections, what waits or goes on ends, the rest in flight finishes, stragglers
are cut off.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import math
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 20.0
BODY_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 90
STOP_SECONDS = 5

# Instead of seconds to wait for what comes next.
_FOR_EVER = math.inf
_AS_BEFORE = -1.0

_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+")  # as HTTP has it


class Application(Protocol):
    """What is served: an ASGI application that can be told to come to an end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    def end_streams(self) -> None:
        """End everything that waits or would go on for ever."""
        ...


class ListenError(Exception):
    """A listener cannot be opened; the message says which and why."""


def _choosable(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Leave out offered subprotocols that are no tokens, such as kubectl's for port-forward.

    Nobody can choose them, and the handshake would fail on them before it can be said why.
    """
    for name, value in headers:
        if name != b"sec-websocket-protocol":
            yield name, value
        elif found := [one for one in re.split(rb"\s*,\s*", value) if _TOKEN.fullmatch(one)]:
            yield name, b", ".join(found)


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with an end to waiting and to headers."""

    _deadline: asyncio.TimerHandle | None = None
    _parsing = False
    _next = _AS_BEFORE
    _header_bytes = 0
    _receiving = False
    _unanswered = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # uvicorn narrows the parameter the same way: this is never a datagram transport
        super().connection_made(transport)
        self._wait(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set(_FOR_EVER)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Most requests come whole: only what is waited for after a piece of data needs a timer.
        self._parsing, self._next = True, _AS_BEFORE
        super().data_received(data)
        self._parsing = False
        if self._next != _AS_BEFORE:
            self._set(self._next)
        # Empty lines before a request: uvicorn has ended its own wait, and nothing has begun.
        if not self._receiving and not self._unanswered and self._deadline is None:
            self._set(HEADER_SECONDS)

    def handle_websocket_upgrade(self) -> None:
        self._unanswered += 1  # and never will be: another protocol has taken over
        self._came()
        self.scope["headers"] = list(_choosable(self.scope["headers"]))
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        self._receiving = True
        self._wait(HEADER_SECONDS)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unanswered += 1
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.cycle.response_complete:
            self._wait(BODY_SECONDS)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving = False
        self._came()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()
        if self._receiving:
            self._wait(BODY_SECONDS)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            # The parser turns this into its own error, and uvicorn that into a 400.
            raise ValueError("the request's header is too large")

    def _wait(self, seconds: float) -> None:
        if self._parsing:
            self._next = seconds
        else:
            self._set(seconds)

    def _came(self) -> None:
        self._wait(_FOR_EVER)

    def _set(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds != _FOR_EVER:
            self._deadline = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self.flow.read_paused:
            self._wait(BODY_SECONDS)  # it is we who do not read
        elif not self.transport.is_closing():
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
        # uvicorn reports each refused request and each straggler as an error of its own.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def start(self) -> None:
        await self.tick()
        await self._server.startup(sockets=[self._socket])

    async def tick(self) -> None:
        """Let uvicorn renew the Date header it sends; due once a second."""
        await self._server.on_tick(0)

    async def stop(self) -> None:
        self.application.end_streams()
        await self._server.shutdown(sockets=[self._socket])


def bind(host: str, ports: Sequence[int]) -> socket.socket:
    """Bind and listen on the first of `ports` that is free; 0 is any."""
    try:
        family = {4: socket.AF_INET, 6: socket.AF_INET6}[ipaddress.ip_address(host).version]
    except ValueError as error:
        raise ListenError(f"cannot listen on {host}: not an IP address") from error
    for candidate in ports:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(bound)
        try:
            bound.bind((host, candidate))
            # A second socket may be bound to the port of a first that does not listen yet.
            bound.listen(2048)
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and candidate != ports[-1]:
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
