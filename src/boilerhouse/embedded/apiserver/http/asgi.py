"""HTTP in front of the API: ASGI messages become a Request, a Reply or a Stream becomes messages.

client ─HTTP─► uvicorn ─ASGI─► Application ─Request─► ApiServer.handle ─► Reply | Stream
                                           └Request─► ApiServer.open   ─► Session (WebSocket)

Nothing here knows a resource. What belongs to the wire is bounded here: the size of a body, the
time it may take, the life of a stream whose client has gone.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

import structlog

from boilerhouse.embedded.apiserver.describing.discovery import OPEN_PATHS
from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.embedded.apiserver.request.decoding import BODY_LIMIT
from boilerhouse.embedded.apiserver.request.rendering import error_reply
from boilerhouse.platform.kube.status import (
    ApiError,
    InternalError,
    Timeout,
    TooLarge,
    Unauthorized,
)
from boilerhouse.platform.kube.wire import Reply, Request, Stream

BODY_SECONDS = 60
# A client that does not read holds about twice this, however large the pieces of its stream are.
SEND_BYTES = 64 * 1024
# As a real server: smaller answers cost more to compress than to send.
GZIP_FROM = 128 * 1024

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = structlog.get_logger()


class Handler(Protocol):
    """What answers: the ApiServer."""

    async def handle(self, request: Request) -> Reply | Stream: ...

    async def open(self, request: Request, subprotocols: tuple[str, ...]) -> Session: ...


class Application:
    """One ASGI application per listener; they share the handler.

    `token`: what a client must show; None where the socket's file mode is the guard.
    `compress`: whether big answers may be gzipped (pointless between two processes of one machine
    that meet on a Unix socket).
    """

    def __init__(self, handler: Handler, *, token: str | None, compress: bool) -> None:
        self._handler = handler
        self._bearer = None if token is None else f"Bearer {token}".encode()
        self._compress = compress
        self._streams: set[asyncio.Task[None]] = set()
        self._ending = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    def end_streams(self) -> None:
        """End every open watch, log and session, and those that are just being opened.

        In good order: their clients see an end, not a break, and may come back to a next server.
        """
        self._ending = True
        for task in self._streams:
            task.cancel()

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            request = await self._request(scope, receive)
            answer = await self._handler.handle(request)
        except _Disconnected:
            return
        except ApiError as error:
            answer = failure(error)
        except Exception as error:  # noqa: BLE001  the last resort: told to the log, not to the wire
            answer = _unexpected(error, scope)
        if isinstance(answer, Reply):
            await self._reply(answer, scope, send)
        else:
            await self._stream(answer, scope, receive, send)

    async def _request(self, scope: Message, receive: Receive) -> Request:
        headers = _headers(scope["headers"])
        self._authenticate(scope["path"], headers)
        body = await _body(headers, receive) if scope["type"] == "http" else b""
        query = scope["query_string"].decode("latin-1")
        return Request(
            method=scope.get("method", "GET"),
            path=scope["path"],
            query=tuple(parse_qsl(query, keep_blank_values=True)),
            headers=headers,
            body=body,
        )

    def _authenticate(self, path: str, headers: Mapping[str, str]) -> None:
        if self._bearer is None or path in OPEN_PATHS:
            return
        shown = headers.get("authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, self._bearer):
            raise Unauthorized("Unauthorized")

    async def _reply(self, reply: Reply, scope: Message, send: Send) -> None:
        headers, body = dict(reply.headers), reply.body
        plain = "content-encoding" not in headers  # a Pod's answer, proxied, may be packed already
        if self._compress and plain and len(body) >= GZIP_FROM and _accepts_gzip(scope):
            body = await asyncio.to_thread(_gzip, body)
            headers |= {"content-encoding": "gzip"}
            headers["vary"] = ", ".join(filter(None, (headers.get("vary"), "Accept-Encoding")))
        if reply.status not in (204, 304):
            headers["content-length"] = str(len(body))
        await send(_start(reply.status, headers))
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, stream: Stream, scope: Message, receive: Receive, send: Send) -> None:
        """Send pieces as they come until they end, the client goes, or the server stops."""
        await send(_start(stream.status, stream.headers))
        pump = asyncio.create_task(_pump(stream.chunks, send))
        gone = asyncio.create_task(_wait_for_disconnect(receive))
        self._streams.add(pump)
        if self._ending:
            pump.cancel()
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(pump)
            left = gone.done()
            for task in (pump, gone):
                task.cancel()
            ended, _ = await asyncio.gather(pump, gone, return_exceptions=True)
        if isinstance(ended, Exception) and not left:
            # Not completing the body is how HTTP says that something is missing.
            log.error("api.stream_broke", path=scope["path"], exc_info=ended)
        elif not left:
            await send({"type": "http.response.body", "body": b""})

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            request = await self._request(scope, receive)
            session = await self._handler.open(request, tuple(scope.get("subprotocols", ())))
        except ApiError as error:
            await _refuse(failure(error), send)
            return
        except Exception as error:  # noqa: BLE001  as in _http
            await _refuse(_unexpected(error, scope), send)
            return
        await send({"type": "websocket.accept", "subprotocol": session.subprotocol})
        socket = _WebSocket(session.subprotocol, receive, send)
        run = asyncio.ensure_future(session.run(socket))
        self._streams.add(run)
        try:
            await asyncio.wait({run})
        finally:
            self._streams.discard(run)
            run.cancel()
            (ended,) = await asyncio.gather(run, return_exceptions=True)
        if isinstance(ended, Exception):
            log.error("api.session_broke", path=scope["path"], exc_info=ended)
        await socket.close(1011 if isinstance(ended, Exception) else 1000)


class _WebSocket:
    """An accepted WebSocket as `kube.wire.Socket`."""

    def __init__(self, subprotocol: str | None, receive: Receive, send: Send) -> None:
        self.subprotocol = subprotocol
        self._receive = receive
        self._send = send
        self._open = True

    async def send(self, message: bytes) -> None:
        if self._open:
            await self._send({"type": "websocket.send", "bytes": message})

    async def receive(self) -> bytes | None:
        if not self._open:
            return None
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._open = False
            return None
        data: bytes | None = message.get("bytes")
        return data if data is not None else str(message.get("text") or "").encode()

    async def close(self, code: int = 1000) -> None:
        if self._open:
            self._open = False
            await self._send({"type": "websocket.close", "code": code})


class _Disconnected(Exception):
    """The client went before its request was whole."""


class _Late(Timeout):
    """The client is too slow with its request: what is still to come of it is not read."""


def failure(error: ApiError) -> Reply:
    """Render an error as its Status."""
    reply = error_reply(error)
    headers = {**reply.headers, "cache-control": "no-cache, private"}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, _Late):
        headers["connection"] = "close"
    return Reply(reply.status, reply.body, headers)


def _unexpected(error: Exception, scope: Message) -> Reply:
    log.error(
        "api.unexpected_error", method=scope.get("method"), path=scope["path"], exc_info=error
    )
    return failure(InternalError("Internal error occurred: see the log of the API server"))


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Decode header fields; a repeated one is the list of its values, as HTTP has it."""
    headers: dict[str, str] = {}
    for raw, value in pairs:
        name = raw.decode("latin-1").lower()
        text = value.decode("utf-8", "surrogateescape")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """Read a request's body, refusing it as soon as it is known to be too large."""
    declared = headers.get("content-length", "")
    if re.fullmatch("[0-9]{1,19}", declared) and int(declared) > BODY_LIMIT:
        raise _too_large()
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Disconnected
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > BODY_LIMIT:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise _Late(f"the request's body did not arrive within {BODY_SECONDS} s") from None


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def _accepts_gzip(scope: Message) -> bool:
    return "gzip" in _headers(scope["headers"]).get("accept-encoding", "")


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


def _start(status: int, headers: Mapping[str, str]) -> Message:
    pairs = [
        (name.encode("latin-1"), value.encode("utf-8", "surrogateescape"))
        for name, value in headers.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": pairs}


async def _pump(chunks: AsyncIterator[bytes], send: Send) -> None:
    try:
        async for chunk in chunks:
            # A server takes what it is given, and only then says that its buffer is full.
            if 0 < len(chunk) <= SEND_BYTES:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                continue
            for start in range(0, len(chunk), SEND_BYTES):
                body = chunk[start : start + SEND_BYTES]
                await send({"type": "http.response.body", "body": body, "more_body": True})
    finally:
        # A generator holds a subscription: left to the garbage collector it would go on growing.
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _refuse(reply: Reply, send: Send) -> None:
    """Answer a WebSocket handshake by an ordinary HTTP response."""
    start = _start(reply.status, {**reply.headers, "content-length": str(len(reply.body))})
    await send(start | {"type": "websocket.http.response.start"})
    await send({"type": "websocket.http.response.body", "body": reply.body})
