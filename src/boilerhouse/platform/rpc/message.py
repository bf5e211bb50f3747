"""The vocabulary between who asks and who answers.

Request ─► Handler ─► Answer

An agent is a handler, the helper is one, and a peer behind a socket (`peer.py`) is one as well: so
whether the other end is across a network or in this process is decided where things are put
together, and nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from boilerhouse.platform.rpc.refusal import JSON, Refused


class Body:
    """Bytes that arrive in pieces. Whoever holds one closes it, read or not.

    This one is the simplest: all of it is there.
    """

    length: int | None

    def __init__(self, content: bytes = b"") -> None:
        self.length = len(content)
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        content, self._content = self._content, b""
        if not content:
            raise StopAsyncIteration
        return content

    async def close(self) -> None:
        """Let go of what is behind it."""

    async def read(self, limit: int) -> bytes:
        """Read all of it; `Refused` if that is more than `limit` bytes."""
        if self.length is not None and self.length > limit:
            raise too_large(limit)
        content = b""
        async for piece in self:
            content += piece
            if len(content) > limit:
                raise too_large(limit)
        return content


class HeldBody(Body):
    """A body on its way through, with a place that is held until it is closed: `over` ends that."""

    def __init__(self, body: Body, over: Callable[[], None]) -> None:
        self.length = body.length
        self._body = body
        self._over: Callable[[], None] | None = over

    async def __anext__(self) -> bytes:
        return await anext(self._body)

    async def close(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()
            await self._body.close()


def too_large(limit: int) -> Refused:
    return Refused(413, "too-large", f"the body is larger than {limit} bytes")


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `path` and `query` are decoded; header names are lower case."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = field(default_factory=Body)

    def param(self, name: str) -> str | None:
        """Return the first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return None

    def number(self, name: str, code: str = "bad-number") -> int | None:
        """Return a parameter that is a number, None if it is missing; `Refused` if it is none."""
        text = self.param(name)
        if text is not None and not (text.isascii() and text.isdecimal() and len(text) < 13):
            raise Refused(400, code, f"{name} is a number")
        return None if text is None else int(text)

    def params(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back. The body is closed by whoever got the answer."""

    status: int
    body: Body = field(default_factory=Body)
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Answer]]


def answering(handler: Handler) -> Handler:
    """Make refusals answers, as a server does, for whoever asks a handler in process."""

    async def handle(request: Request) -> Answer:
        try:
            return await handler(request)
        except Refused as refused:
            return refusal(refused)

    return handle


def json_answer(body: bytes, status: int = 200) -> Answer:
    return Answer(status, Body(body), {"content-type": JSON})


def refusal(refused: Refused) -> Answer:
    return json_answer(refused.body(), refused.status)
