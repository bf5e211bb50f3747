"""HTTP/1.1 as bytes: heads and bodies, as little of it as both ends of our protocol use.

bytes ─► read_head ─► Head ─► ReceivedBody        head bytes ◄─ write_head, write_body

Lengths or chunks, no trailers, no folded lines. What could be read in two ways (two lengths, a
length beside chunks) is refused: the API server's proxy stands between us and some callers, and
two readings of one message are how requests get smuggled.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused

HEAD_LIMIT = 32 << 10  # also how much a stream buffers
PIECE = 64 << 10
_HEADERS = 100
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")


class Broken(Exception):
    """The other end does not speak HTTP as we do, or stopped in the middle."""


@dataclass(frozen=True, slots=True)
class Head:
    """First line, in its three parts, and headers."""

    line: tuple[str, str, str]
    headers: Mapping[str, str]

    @property
    def length(self) -> int | None:
        """How long the body is; None if it comes in chunks."""
        if self.chunked:
            return None
        return int(self.headers.get("content-length", "0"))

    @property
    def chunked(self) -> bool:
        return "transfer-encoding" in self.headers

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None if the connection ends before it begins."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise Broken("the connection ended within a head") from None
    except asyncio.LimitOverrunError:
        raise Refused(431, "head-too-large", f"the head exceeds {HEAD_LIMIT} bytes") from None
    first, *rest = raw[:-4].split(b"\r\n")
    parts = first.decode("latin-1").split(" ", 2)
    if len(parts) != 3 or len(rest) > _HEADERS:
        raise Refused(400, "bad-head", "not an HTTP/1.1 head")
    headers = _headers(rest)
    return Head((parts[0], parts[1], parts[2]), headers)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise Refused(400, "bad-head", "a header line that is none")
        name = found[1].decode("ascii").lower()
        value = found[2].decode("latin-1")
        if name in headers and name in ("content-length", "transfer-encoding", "host"):
            raise Refused(400, "bad-head", f"{name} is there twice")
        headers[name] = value
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is not None and (coding is not None or not re.fullmatch(r"[0-9]{1,18}", length)):
        raise Refused(400, "bad-head", "the length of the body is not clear")
    if coding is not None and coding.lower() != "chunked":
        raise Refused(501, "bad-head", f"transfer coding {coding} is not understood")
    return headers


class ReceivedBody(Body):
    """A body as it comes out of a connection. `done` once its last byte was read."""

    def __init__(self, reader: asyncio.StreamReader, head: Head, silence: float) -> None:
        self.length = head.length
        self._reader = reader
        self._chunked = head.chunked
        self._left = head.length or 0  # of the whole, or of the chunk that is being read
        self._silence = silence
        self.done = self.length == 0

    async def __anext__(self) -> bytes:
        if self.done:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(self._silence):
                return await self._piece()
        except asyncio.IncompleteReadError:
            raise Broken("the connection ended within a body") from None
        except (asyncio.LimitOverrunError, ValueError):
            raise Broken("a chunk that is none") from None

    async def _piece(self) -> bytes:
        if self._chunked and not self._left:
            self._left = await self._next_chunk()
            if not self._left:
                self.done = True
                raise StopAsyncIteration
        piece = await self._reader.read(min(self._left, PIECE))
        if not piece:
            raise Broken("the connection ended within a body")
        self._left -= len(piece)
        if self._left == 0:
            if self._chunked:
                await self._line_end()
            else:
                self.done = True
        return piece

    async def _next_chunk(self) -> int:
        line = (await self._reader.readuntil(b"\r\n"))[:-2]
        size = line.partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
            raise ValueError(line)
        if int(size, 16) == 0:
            await self._line_end()  # trailers are not a thing here
        return int(size, 16)

    async def _line_end(self) -> None:
        if await self._reader.readexactly(2) != b"\r\n":
            raise ValueError("a chunk does not end where it said")


def head_bytes(first: str, headers: Mapping[str, str], length: int | None) -> bytes:
    """Spell a head. `length` None announces chunks."""
    frame = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), frame]
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or "\x00" in text:
        raise ValueError("a header value contains a line break")
    return (text + "\r\n\r\n").encode("latin-1")


async def write_body(writer: asyncio.StreamWriter, body: Body, silence: float) -> None:
    """Send a body in the frame that its head announced; `Broken` if it is not as long as it said.

    `silence` bounds how long the other end may refuse to take any.
    """
    left = body.length
    async for piece in _within(body, left):
        writer.write(piece if left is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
        async with asyncio.timeout(silence):
            await writer.drain()
    if left is None:
        writer.write(b"0\r\n\r\n")
    async with asyncio.timeout(silence):
        await writer.drain()


async def _within(body: Body, length: int | None) -> AsyncIterator[bytes]:
    sent = 0
    async for piece in body:
        if piece:
            sent += len(piece)
            if length is not None and sent > length:
                raise Broken("a body is longer than it said")
            yield piece
    if length is not None and sent < length:
        raise Broken("a body is shorter than it said")
