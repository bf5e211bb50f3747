"""What only Pods have: logs, commands inside, and requests to their ports. `client.pods`.

client.pods.log | open_log | exec | run | proxy ──► Transport
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from boilerhouse.core.clock import rfc3339
from boilerhouse.platform.kube.exec import PROTOCOLS, Result, Session, run
from boilerhouse.platform.kube.resources import PODS, segment
from boilerhouse.platform.kube.status import BadRequest
from boilerhouse.platform.kube.wire import Reply, Request, Stream

if TYPE_CHECKING:
    from boilerhouse.platform.kube.client import Client

LOG_LIMIT = 16 << 20
LOG_SILENCE = 30.0  # seconds between two pieces of a log that is not followed
EXEC_TIMEOUT = 60.0
EXEC_LIMIT = 1 << 20


class Pods:
    """The Pod verbs of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def log(
        self,
        name: str,
        *,
        namespace: str | None = None,
        container: str = "",
        tail: int | None = None,
        since: datetime | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
        previous: bool = False,
        limit: int = LOG_LIMIT,
    ) -> bytes:
        """Return what a container has written so far; the last `limit` bytes if that is more."""
        # Not the server's `limitBytes`: it keeps the beginning.
        kept = bytearray()
        async with self.open_log(
            name,
            namespace=namespace,
            container=container,
            tail=tail,
            since=since,
            since_seconds=since_seconds,
            timestamps=timestamps,
            previous=previous,
        ) as chunks:
            async for chunk in chunks:
                kept += chunk
                del kept[:-limit]
        return bytes(kept)

    @asynccontextmanager
    async def open_log(
        self,
        name: str,
        *,
        namespace: str | None = None,
        container: str = "",
        tail: int | None = None,
        since: datetime | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
        previous: bool = False,
        follow: bool = False,
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a log of any length, to be read piece by piece; pieces are not lines.

        With `follow` it goes on as the container writes, and ends when the container does. Silence
        is normal there, so there is no read deadline.
        """
        query = _log_query(container, tail, since, since_seconds, timestamps)
        query += [("previous", "true")] if previous else []
        query += [("follow", "true")] if follow else []
        path = PODS.path(self._client.resolve_namespace(namespace), name, "log")
        request = Request("GET", path, tuple(query))
        silence = None if follow else LOG_SILENCE
        async with self._client.stream(request, read_timeout=silence) as stream:
            yield stream.chunks

    @asynccontextmanager
    async def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> AsyncGenerator[Session]:
        """Start a command and talk to it; see `exec.Session`. With `tty` there is no stderr."""
        if not command:
            raise BadRequest("exec: there is no command")
        query = [("command", part) for part in command]
        query += [("stdout", "true"), ("stderr", "false" if tty else "true")]
        query += [("stdin", str(stdin).lower()), ("tty", str(tty).lower())]
        if container:
            query.append(("container", container))
        path = PODS.path(self._client.resolve_namespace(namespace), name, "exec")
        request = Request("GET", path, tuple(query))
        async with self._client.transport.socket(request, PROTOCOLS) as socket:
            yield Session(socket)

    async def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bytes | None = None,
        timeout: float = EXEC_TIMEOUT,
        limit: int = EXEC_LIMIT,
    ) -> Result:
        """Run a command to its end and return what it wrote, up to `limit` bytes per stream.

        A command that does not end in time is `exec.CommandTimeout`, with what it wrote so far.
        """
        session = self.exec(
            name, command, namespace=namespace, container=container, stdin=stdin is not None
        )
        return await run(session, stdin=stdin, timeout=timeout, limit=limit)

    async def proxy(
        self,
        name: str,
        port: int | str,
        path: str = "/",
        *,
        namespace: str | None = None,
        method: str = "GET",
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        scheme: str = "",
        timeout: float | None = None,
    ) -> Reply:
        """Make a request to a port of a Pod through the API server; returns whatever it answers.

        The server keeps `Authorization` to itself: a Pod that wants a token needs another header.
        A failure of the API server itself looks like an answer too, with a `Status` as its body.
        """
        request = self._proxied(name, port, path, namespace, method, query, headers, body, scheme)
        return await self._client.transport.request(request, timeout=timeout)

    @asynccontextmanager
    async def proxy_stream(
        self,
        name: str,
        port: int | str,
        path: str = "/",
        *,
        namespace: str | None = None,
        method: str = "GET",
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        scheme: str = "",
        read_timeout: float | None = None,
    ) -> AsyncGenerator[Stream]:
        """Make a request to a port of a Pod, with an answer that may be long."""
        request = self._proxied(name, port, path, namespace, method, query, headers, body, scheme)
        async with self._client.transport.stream(request, read_timeout=read_timeout) as stream:
            yield stream

    def _proxied(
        self,
        name: str,
        port: int | str,
        path: str,
        namespace: str | None,
        method: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str] | None,
        body: bytes,
        scheme: str,
    ) -> Request:
        # The path comes from outside. With `..` in it, it would be another call under our name.
        if any(part in (".", "..") for part in path.split("/")):
            raise BadRequest(f"proxy: {path!r} contains . or .. segments")
        target = f"{scheme}:{segment(name)}:{port}" if scheme else f"{segment(name)}:{port}"
        base = PODS.path(self._client.resolve_namespace(namespace), target, "proxy")
        lower = {key.lower(): value for key, value in (headers or {}).items()}
        return Request(method, f"{base}/{path.lstrip('/')}", tuple(query), lower, body)


def _log_query(
    container: str,
    tail: int | None,
    since: datetime | None,
    since_seconds: int | None,
    timestamps: bool,
) -> list[tuple[str, str]]:
    known = {
        "container": container,
        "tailLines": "" if tail is None else str(tail),
        "sinceTime": "" if since is None else rfc3339(since),
        "sinceSeconds": "" if since_seconds is None else str(since_seconds),
        "timestamps": "true" if timestamps else "",
    }
    return [(key, value) for key, value in known.items() if value]
