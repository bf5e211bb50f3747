"""A transport that answers from a script: for tests in virtual time, where no socket may be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream

Answer = Reply | Exception


def ok(body: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, body if isinstance(body, bytes) else msgspec.json.encode(body), headers)


class Scripted:
    """Answers each request with the next entry of the script; the last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    @property
    def last(self) -> Request:
        return self.requests[-1]

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncIterator[Stream]:
        reply = await self.request(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield reply.body

        yield Stream(reply.status, chunks(), reply.headers)

    def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AbstractAsyncContextManager[Socket]:
        raise AssertionError("no sockets in this script")

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
