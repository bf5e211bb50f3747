"""One bound socket and the server behind it: what all our HTTP listeners have in common.

socket ─► accepting.py ─► uvicorn's protocols, bounded ─► an ASGI application

uvicorn parses; what it leaves open is bounded here: how many connections there may be, how long a
header may take and how large it may be, how long a body may be silent, how long a peer without a
pulse counts as alive.

    TLS handshake                             HEADER_SECONDS
    connected ─► first byte … header whole    HEADER_SECONDS each
    header whole ─► body whole                BODY_SECONDS from one piece to the next
    answered before the body is whole         BODY_SECONDS for all the rest
    idle between requests                     KEEP_ALIVE_SECONDS

At its connection limit a listener closes the connection that has waited longest without a request
for each new one; when all of them are busy, new ones wait in the kernel's backlog.

Stopping: no new connections, what waits or goes on ends, the rest in flight finishes, stragglers
are cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import math
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from boilerhouse.core.connections import ConnectionLimit
from boilerhouse.platform.serving.accepting import Acceptor, CountedSocket
from boilerhouse.platform.serving.websockets import PacedWebSocket

HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 20.0
BODY_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 90
STOP_SECONDS = 5
BACKLOG = 2048  # connections that the kernel keeps until they are accepted

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

    def __init__(self, message: str, *, in_use: bool = False) -> None:
        super().__init__(message)
        self.in_use = in_use


def _choosable(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Leave out offered subprotocols that are no tokens, such as kubectl's for port-forward.

    Nobody can choose them, and the handshake would fail on them before it can be said why.
    """
    for name, value in headers:
        if name != b"sec-websocket-protocol":
            yield name, value
        elif found := [one for one in re.split(rb"\s*,\s*", value) if _TOKEN.fullmatch(one)]:
            yield name, b", ".join(found)


# Connections without a request, and how to end them; the one that has waited longest is first.
Idle = dict[object, Callable[[], object]]


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with an end to waiting and to headers."""

    _deadline: asyncio.TimerHandle | None = None
    _parsing = False
    _next = _AS_BEFORE
    _header_bytes = 0
    _receiving = False
    _in_header = False
    _hosts = 0
    _unanswered = 0
    idle: Idle  # set by the listener that made it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # uvicorn narrows the parameter the same way: this is never a datagram transport
        super().connection_made(transport)
        self.idle[self] = transport.abort
        self._wait(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.pop(self, None)
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
        self.idle.pop(self, None)
        self._came()
        self.scope["headers"] = list(_choosable(self.scope["headers"]))
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        self._receiving = self._in_header = True
        self._hosts = 0
        self._wait(HEADER_SECONDS)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if not self._in_header:
            return  # a trailer: it came after the request was judged, and is no part of its header
        if name.lower() == b"host":
            self._hosts += 1
            if self._hosts > 1:
                # Two readers of this request might believe different ones: as HTTP says, a 400.
                raise ValueError("the request has more than one Host")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._unanswered += 1
        self.idle.pop(self, None)
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
        if not self._unanswered and not self.transport.is_closing():
            self.idle[self] = self.transport.abort
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
        self,
        bound: socket.socket,
        application: Application,
        limit: ConnectionLimit,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.application = application
        self._socket = bound
        self._limit = limit
        self._tls = tls
        self._idle: Idle = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._acceptor: Acceptor | None = None
        self._config = uvicorn.Config(
            application,
            http=BoundedHttp,
            ws=PacedWebSocket,
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
        self._config.load()
        self._server = uvicorn.Server(self._config)
        self._server.servers = []  # connections are accepted here
        self._server.lifespan = self._config.lifespan_class(self._config)
        # uvicorn reports each refused request and each straggler as an error of its own.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def start(self) -> None:
        await self.tick()
        self._socket.listen(BACKLOG)
        self._acceptor = Acceptor(self._socket, self._limit, self._connected, self._make_room)
        self._acceptor.start()

    async def tick(self) -> None:
        """Let uvicorn renew the Date header it sends; due once a second."""
        await self._server.on_tick(0)

    async def stop(self) -> None:
        self.application.end_streams()
        if self._acceptor is not None:
            self._acceptor.stop()
        for opening in self._opening:
            opening.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await self._server.shutdown(sockets=[self._socket])

    def _connected(self, accepted: CountedSocket) -> None:
        opening = asyncio.get_running_loop().create_task(self._open(accepted))
        self._opening.add(opening)
        # A handshake that does not come to its end is idle, too.
        self._idle[opening] = opening.cancel
        opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening.discard(opening)
        self._idle.pop(opening, None)

    async def _open(self, accepted: CountedSocket) -> None:
        loop, timeout = asyncio.get_running_loop(), HEADER_SECONDS if self._tls else None
        try:
            # A peer that is gone already, or whose TLS cannot be understood, is no error of ours.
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(
                    self._protocol, accepted, ssl=self._tls, ssl_handshake_timeout=timeout
                )
                return
        except BaseException:
            accepted.close()
            raise
        accepted.close()

    def _protocol(self) -> BoundedHttp:
        made = BoundedHttp(
            config=self._config,
            server_state=self._server.server_state,
            app_state=self._server.lifespan.state,
        )
        made.idle = self._idle
        return made

    def _make_room(self) -> bool:
        for key, end in self._idle.items():
            del self._idle[key]
            end()
            return True
        return False


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
            bound.listen(BACKLOG)
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and candidate != ports[-1]:
                continue
            why = f"cannot listen on {host}:{candidate}: {error.strerror}"
            raise ListenError(why, in_use=error.errno == errno.EADDRINUSE) from error
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
