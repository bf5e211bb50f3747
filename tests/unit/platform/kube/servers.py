"""Small HTTP servers on loopback that do exactly what a test tells them, down to the bytes.

Real servers are polite. These cut a line in half, accept and never answer, hang up midway.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec


class Exchange:
    """One request that came in, and the means to answer it."""

    def __init__(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.reader, self.writer = reader, writer

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    async def reply(self, status: int, body: Any = b"", **headers: str) -> None:
        """Answer in one piece; anything but bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        await self.send(head(status, {"content-length": str(len(data)), **headers}) + data)

    async def begin(self, status: int = 200) -> None:
        """Begin a chunked answer."""
        await self.send(head(status, {"transfer-encoding": "chunked"}))

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, type_: str, body: Any) -> None:
        await self.chunk(msgspec.json.encode({"type": type_, "object": body}) + b"\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def hang_up(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        self.writer.transport.abort()


Handler = Callable[[Exchange], Awaitable[None]]


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Exchange | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *rest = raw.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.split(": ", 1) for line in rest if line)
    headers = {key.lower(): value for key, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(method, target, headers, body, reader, writer)


@asynccontextmanager
async def serving(
    handler: Handler,
    *,
    port: int = 0,
    unix: Path | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve until the context ends; yields the address."""
    tasks: set[asyncio.Task[Any] | None] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            while (exchange := await read_request(reader, writer)) is not None:
                await handler(exchange)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            tasks.discard(asyncio.current_task())
            writer.transport.abort()

    if unix is not None:
        server = await asyncio.start_unix_server(connection, unix)
        address = f"unix://{unix}"
    else:
        server = await asyncio.start_server(connection, "127.0.0.1", port, ssl=tls)
        scheme = "https" if tls else "http"
        address = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield address
    finally:
        server.close()
        left = [task for task in tasks if task is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left)
        await server.wait_closed()


def pod(name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    """Build a Pod as it comes over the wire."""
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "uid": uid or f"uid-{name}", **more},
    }


def pods(*items: dict[str, Any], version: int, more: str = "") -> dict[str, Any]:
    """Build a PodList."""
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": list(items)}


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
