"""The vocabulary between a Kubernetes client and whatever answers it.

client ──► Request ──► Transport ──► Reply | Stream | Socket

The whole outside world is swapped at `Transport`: HTTP to a real API server, a Unix socket, or the
handlers of the embedded API in this very process. Nothing above it knows which one it talks to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

JSON = "application/json"
YAML = "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Request(msgspec.Struct, frozen=True):
    """One call. Header names are lower case; `path` is decoded and starts with a slash.

    `deferred`: it may be answered before it is on disk, by a server that can. Only for a caller
    that waits for a later write of its own, not deferred, before it answers: see
    `storage/store.py`.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    deferred: bool = False

    def param(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return default

    def params(self, name: str) -> list[str]:
        """Return every value of a repeated query parameter, in order."""
        return [value for key, value in self.query if key == name]


class Reply(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": JSON})


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose body arrives in pieces: a watch, or a log that is followed.

    Iterating raises `status.Unavailable` when the connection breaks; a clean end just ends.
    """

    status: int
    chunks: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": JSON})


class Socket(Protocol):
    """A WebSocket that carries binary messages, as exec and attach use it."""

    subprotocol: str | None

    async def send(self, message: bytes) -> None: ...

    async def receive(self) -> bytes | None:
        """Return the next message, or None once the peer has closed."""
        ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """One way to reach an API server."""

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply: ...

    def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a streamed answer; `read_timeout` bounds the silence between two pieces."""
        ...

    def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AbstractAsyncContextManager[Socket]: ...

    async def close(self) -> None: ...
