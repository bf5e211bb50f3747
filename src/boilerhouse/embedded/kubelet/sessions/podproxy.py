"""`pods/proxy`: an HTTP request carried to a port of a Pod, from inside its network.

Request ─► connect ─► h11 ─► Stream, as the Pod answers it
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import h11

from boilerhouse.core.pace import Pace
from boilerhouse.platform.kube.status import ApiError, BadRequest, Unavailable
from boilerhouse.platform.kube.wire import Request, Stream

Body = Mapping[str, Any]
Connect = Callable[[int], Awaitable[socket.socket]]
_CONNECT_SECONDS = 10.0
_CHUNK = 64 * 1024
_INTERIM = 10  # answers 1xx before the one that counts; Go's client takes five
_PIECES = 256  # of a body, handled in one turn of the event loop
_PIECES_PER_SECOND = 10_000
_TOO_LARGE = 431
# Of one connection and not of the request; and what is the API server's own.
_DROPPED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "content-length", "authorization",
    }
)  # fmt: skip


def port_number(pod: Body, port: str) -> int:
    """Return the port that is meant: a number, a name, or the first one that is declared."""
    declared = [
        one
        for group in ("containers", "initContainers")
        for container in pod["spec"].get(group, ())
        for one in container.get("ports", ())
    ]
    if port.isdecimal() and 0 < int(port) < 65536:
        return int(port)
    for one in declared:
        if not port or one.get("name") == port:
            return int(one["containerPort"])
    name = pod["metadata"]["name"]
    words = f"has no port {port!r}" if port else "declares no port"
    raise BadRequest(f"pod {name} {words}")


async def forward(connect: Connect, host: str, port: int, path: str, request: Request) -> Stream:
    """Send a request and return the answer as it comes; `Unavailable` if nobody answers."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            made = await connect(port)
        reader, writer = await asyncio.open_connection(sock=made)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"error trying to reach port {port}: {error}") from error
    exchange = _Exchange(reader, writer)
    try:
        await exchange.send(_head(host, port, path, request), request.body)
        answer = await exchange.answer(port)
    except BaseException as error:
        exchange.close()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == _TOO_LARGE:
            raise _bad_gateway(port, "its headers are too large") from error
        if isinstance(error, OSError | h11.ProtocolError):
            raise Unavailable(f"port {port} did not answer: {error}") from error
        raise
    return Stream(answer.status_code, exchange.body(), _kept(answer.headers))


def _bad_gateway(port: int, why: str) -> ApiError:
    message = f"port {port} gave an answer that cannot be passed on: {why}"
    return ApiError(message, code=502, reason="BadGateway")


def _head(host: str, port: int, path: str, request: Request) -> h11.Request:
    target = quote(path or "/", safe="/:@!$&'()*+,;=~%")
    if request.query:
        target += "?" + urlencode(request.query)
    headers = [("host", f"{host}:{port}"), ("connection", "close")]
    headers += [(name, value) for name, value in request.headers.items() if name not in _DROPPED]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers.append(("content-length", str(len(request.body))))
    try:
        return h11.Request(method=request.method, target=target, headers=headers)
    except h11.LocalProtocolError as error:
        raise BadRequest(f"the request cannot be passed on: {error}") from error


def _kept(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        if name not in _DROPPED or name == "content-length":
            kept[name] = f"{kept[name]}, {text}" if name in kept else text
    return kept


class _Exchange:
    """One request and its answer on a connection of their own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT)
        self._pace = Pace(_PIECES_PER_SECOND)

    async def send(self, head: h11.Request, body: bytes) -> None:
        self._write(head)
        if body:
            self._write(h11.Data(data=body))
        self._write(h11.EndOfMessage())
        # One that answers before it has read everything may be done with us: its answer counts.
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def _write(self, event: h11.Event) -> None:
        data = self._protocol.send(event)
        if data:
            self._writer.write(data)

    async def answer(self, port: int) -> h11.Response:
        for _ in range(_INTERIM + 1):
            event = await self._next()
            if isinstance(event, h11.Response):
                if event.status_code > 599:
                    raise _bad_gateway(port, f"there is no status {event.status_code}")
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectionResetError("the connection ended before an answer came")
        raise _bad_gateway(port, f"more than {_INTERIM} interim answers (1xx)")

    async def body(self) -> AsyncIterator[bytes]:
        """Pass the body on; small pieces together, and no more of them than others can bear."""
        try:
            event: object = await self._next()
            while isinstance(event, h11.Data):
                pieces: list[bytes] = []
                size = 0
                while isinstance(event, h11.Data) and size < _CHUNK and len(pieces) < _PIECES:
                    pieces.append(bytes(event.data))
                    size += len(event.data)
                    event = self._protocol.next_event()
                yield b"".join(pieces)
                await self._pace.spend(len(pieces))
                if len(pieces) == _PIECES:
                    await asyncio.sleep(0)
                if event is h11.NEED_DATA:
                    event = await self._next()
        except (OSError, h11.ProtocolError) as error:
            raise Unavailable(f"the Pod's answer broke off: {error}") from error
        finally:
            self.close()

    async def _next(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_CHUNK))
        return event

    def close(self) -> None:
        self._writer.transport.abort()
