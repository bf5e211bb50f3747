"""A handler behind a socket: the asking end of the protocol.

Request ─► Peer ─► connection ─► Server ─► handler

One connection per call. What it costs is small beside what is asked for, and no call can be spoilt
by what an earlier one left in the pipe.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

from boilerhouse.platform.rpc import framing
from boilerhouse.platform.rpc.framing import Broken, Head, ReceivedBody
from boilerhouse.platform.rpc.message import Answer, Request
from boilerhouse.platform.rpc.refusal import Refused

CONNECT = 5.0
PATIENCE = 60.0  # for an answer to begin
SILENCE = 60.0  # between two pieces of a body


class Unreachable(Broken):
    """Nobody answers there, or not in a way that can be understood, or not to the end."""


class Peer:
    """Whatever listens at an address. `patience` is the time it has to begin its answer."""

    def __init__(self, host: str, port: int, *, patience: float = PATIENCE) -> None:
        self._host = host
        self._port = port
        self._patience = patience

    async def __call__(self, request: Request) -> Answer:
        """Ask; the answer's body is still to come. `Unreachable` says why there is none."""
        try:
            async with asyncio.timeout(CONNECT):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, limit=framing.HEAD_LIMIT
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"{self._host}:{self._port}: {_words(error)}") from error
        try:
            head = await self._ask(request, reader, writer)
            status = int(head.line[1])
        except (Broken, Refused, OSError, TimeoutError, ValueError) as error:
            writer.transport.abort()
            raise Unreachable(f"{self._host}:{self._port}: {_words(error)}") from error
        except BaseException:
            writer.transport.abort()
            raise
        return Answer(status, _AnswerBody(reader, writer, head), head.headers)

    async def _ask(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Head:
        """Send the request and read the answer's head, which may come before all was sent."""
        target = quote(request.path)
        if request.query:
            target += "?" + urlencode(request.query, errors="surrogateescape")
        headers = {"host": f"{self._host}:{self._port}", **request.headers, "connection": "close"}
        for name in ("content-length", "transfer-encoding", "expect"):
            headers.pop(name, None)
        length = request.body.length
        writer.write(framing.head_bytes(f"{request.method} {target} HTTP/1.1", headers, length))
        sending = asyncio.create_task(framing.write_body(writer, request.body, SILENCE))
        reading = asyncio.create_task(framing.read_head(reader))
        try:
            await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not isinstance(sending.exception(), OSError):
                sending.result()  # it is not the other end that stopped it: no answer will come
            async with asyncio.timeout(self._patience):
                head = await reading
        finally:
            sending.cancel()
            reading.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)
        if head is None:
            raise Broken("the connection was closed without an answer")
        return head


def _words(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))


class _AnswerBody(ReceivedBody):
    """An answer's body, which holds the connection it comes from."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Head
    ) -> None:
        super().__init__(reader, head, SILENCE)
        self._writer = writer

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except (Broken, OSError, TimeoutError) as error:
            raise Unreachable(f"the answer broke off: {_words(error)}") from error

    async def close(self) -> None:
        self._writer.transport.abort()
