"""Listens, and hands what comes to a handler: the server of agent and helper alike.

socket ─► connections (so many at a time) ─► Request ─► handler ─► Answer ─► socket

A tenant shares its network with its agent, so callers may be hostile: everything has a limit and a
deadline, and a refusal costs less than what provoked it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

from boilerhouse.core.connections import AGENTS
from boilerhouse.platform.rpc import framing
from boilerhouse.platform.rpc.framing import Broken, Head, ReceivedBody
from boilerhouse.platform.rpc.message import Answer, Handler, Request, refusal
from boilerhouse.platform.rpc.refusal import ANSWERED_BY, Refused

log = logging.getLogger(__name__)

IDLE = 30.0  # seconds until a connection that says nothing is closed
SILENCE = 30.0  # seconds between two pieces of a body, in either direction
LINGER = 2.0  # seconds for the other end to take the last answer
REFUSALS = 8  # connections beyond the limit that are told so; more are closed at once
UNREAD = 256 << 10  # of a body nobody wanted, read so that the connection can be used again


class Server:
    """One listener. `name` goes into every answer."""

    def __init__(self, name: str, handler: Handler, *, connections: int = 64) -> None:
        self._name = name
        self._handler = handler
        self._connections = connections
        self._open: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on a socket that is bound; it is ours from now on."""
        listener.setblocking(False)
        self._listening = await asyncio.start_server(
            self._connected, sock=listener, limit=framing.HEAD_LIMIT
        )

    async def stop(self) -> None:
        """Stop listening and cut off what is under way."""
        if self._listening is not None:
            self._listening.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if AGENTS.is_full() or len(self._open) >= self._connections + REFUSALS:
            AGENTS.refused += 1
            writer.transport.abort()
            return
        AGENTS.take()
        task = asyncio.create_task(self._talk(reader, writer), name=f"{self._name} connection")
        self._open.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._open.discard(task)
            AGENTS.give_back()
            writer.transport.abort()  # also if the task was cancelled before it began
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("connection failed", exc_info=error)

        task.add_done_callback(ended)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._open) > self._connections:
                await self._answer(writer, refusal(_BUSY), closes=True)
            else:
                while await self._exchange(reader, writer):
                    pass
            await _parted(reader, writer)
        except (Broken, OSError, TimeoutError):
            pass  # the other end is gone, or too slow to be waited for

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is not to be used again."""
        try:
            async with asyncio.timeout(IDLE):
                head = await framing.read_head(reader)
            if head is None:
                return False
            body = _Expected(reader, writer, head)
            request = _request(head, body)
        except Refused as refused:
            await self._answer(writer, refusal(refused), closes=True)
            return False
        answer = await self._handle(request)
        try:
            reusable = not head.closes and (body.done or await _drained(body))
            await self._answer(writer, answer, closes=not reusable)
        finally:
            await answer.body.close()
        return reusable

    async def _handle(self, request: Request) -> Answer:
        try:
            return await self._handler(request)
        except Refused as refused:
            return refusal(refused)
        except (Broken, TimeoutError):
            raise  # the request did not arrive in full: nobody is there to be answered
        except Exception:
            # The server must outlive whatever one request does to it; the log says what it was.
            log.exception("request failed: %s %s", request.method, request.path)
            return refusal(Refused(500, "internal", f"{self._name} failed; its log says why"))

    async def _answer(self, writer: asyncio.StreamWriter, answer: Answer, *, closes: bool) -> None:
        headers = {**answer.headers, ANSWERED_BY: self._name}
        if closes:
            headers["connection"] = "close"
        first = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"
        writer.write(framing.head_bytes(first, headers, answer.body.length))
        await framing.write_body(writer, answer.body, SILENCE)


_BUSY = Refused(503, "busy", "too many connections; try again")


class _Expected(ReceivedBody):
    """A body whose sender may wait to be told that it is wanted."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Head
    ) -> None:
        super().__init__(reader, head, SILENCE)
        self._writer = writer
        self.awaited = head.headers.get("expect", "").lower() == "100-continue"

    async def __anext__(self) -> bytes:
        if self.awaited and not self.done:
            self.awaited = False
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await super().__anext__()


async def _parted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let the other end read the last answer: closing on bytes that we did not read would make
    its kernel throw the answer away."""
    writer.write_eof()
    async with asyncio.timeout(LINGER):
        while await reader.read(framing.PIECE):
            pass


async def _drained(body: _Expected) -> bool:
    """Read what nobody read; False if that is too much, or was never sent."""
    if body.awaited or (body.length or 0) > UNREAD:
        return False
    read = 0
    async for piece in body:
        read += len(piece)
        if read > UNREAD:
            return False
    return True


def _request(head: Head, body: ReceivedBody) -> Request:
    method, target, version = head.line
    if version != "HTTP/1.1" or not target.startswith("/"):
        raise Refused(400, "bad-head", "not an HTTP/1.1 request")
    path, _, query = target.partition("?")
    try:
        # surrogateescape: names of files are bytes, and not all of them are UTF-8.
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="surrogateescape", max_num_fields=100
        )
    except ValueError:
        raise Refused(400, "bad-query", "too many parameters") from None
    return Request(method, unquote(path), tuple(pairs), head.headers, body)
