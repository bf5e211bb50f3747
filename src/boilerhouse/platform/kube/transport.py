"""HTTP to an API server: TCP with TLS, or a Unix socket.

Request ──► credentials ──► httpx2 ──► Reply | Stream | WebSocket

Whatever goes wrong on the way is `Unavailable`; what the server answers is passed on as it is. A
401 is answered once with fresh credentials. Calls and streams have connections of their own, so
that watches never starve a write. HTTP/1.1 only: with HTTP/2 every watch of the process would share
the fate of one TCP connection.

A host that vanishes without a word is noticed by the kernel (keep-alive probes, `TCP_USER_TIMEOUT`)
within half a minute. One that stays up but falls silent is noticed only by `read_timeout`, which is
why the informer always gives one.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx2

from boilerhouse.core.version import version
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.credentials import Certificate, Credential
from boilerhouse.platform.kube.status import ApiError, BadRequest, Unavailable
from boilerhouse.platform.kube.websocket import WebSocket, accept_token, describe
from boilerhouse.platform.kube.wire import Reply, Request, Stream

DEADLINE = 30.0  # seconds for a whole call, unless the caller says otherwise
CONNECT_TIMEOUT = 10.0
BODY_LIMIT = 256 << 20
MAX_CALLS = 64
MAX_STREAMS = 512
IDLE_SECONDS = 30.0

_PATH_SAFE = "/:@!$&'()*+,;=~"
_KEEP_ALIVE: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
_ERRORS: tuple[type[Exception], ...] = (httpx2.TransportError, httpx2.InvalidURL, OSError)


class Http:
    """One API server, over TCP or a Unix socket. Belongs to one event loop."""

    def __init__(self, config: Config, *, body_limit: int = BODY_LIMIT) -> None:
        self._config = config
        self._body_limit = body_limit
        self._unix = config.server.removeprefix("unix://") if config.is_unix else None
        self._base = "http://localhost" if self._unix else config.server.rstrip("/")
        self._connections: _Connections | None = None
        self._opening = asyncio.Lock()

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        deadline = DEADLINE if timeout is None else timeout
        await self._config.credentials.current()  # a plugin may take longer than a call
        try:
            async with asyncio.timeout(deadline), self._send(request, None, calls=True) as response:
                body = await self._whole(request, response)
                return Reply(response.status_code, body, _headers(response))
        except TimeoutError as error:
            raise Unavailable(f"{_called(request)}: no answer within {deadline:g} s") from error

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncGenerator[Stream]:
        async with self._send(request, read_timeout) as response:
            chunks = _chunks(request, response)
            try:
                yield Stream(response.status_code, chunks, _headers(response))
            finally:
                await chunks.aclose()

    @asynccontextmanager
    async def socket(
        self, request: Request, subprotocols: tuple[str, ...]
    ) -> AsyncGenerator[WebSocket]:
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": key,
            "sec-websocket-version": "13",
        }
        if subprotocols:
            upgrade["sec-websocket-protocol"] = ", ".join(subprotocols)
        opening = Request("GET", request.path, request.query, {**request.headers, **upgrade})
        async with self._send(opening, DEADLINE) as response:
            if response.status_code != 101:
                raise ApiError.parse(response.status_code, await self._whole(opening, response))
            if response.headers.get("sec-websocket-accept") != accept_token(key):
                raise Unavailable(f"{_called(request)}: the answer is not a WebSocket's")
            web = WebSocket(
                response.extensions["network_stream"],
                response.headers.get("sec-websocket-protocol"),
            )
            try:
                yield web
            finally:
                await web.close()

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.retire()
            self._connections = None

    @asynccontextmanager
    async def _send(
        self, request: Request, read_timeout: float | None, *, calls: bool = False
    ) -> AsyncGenerator[httpx2.Response]:
        """Send with the current credential and, if that is refused, once more with a fresh one."""
        credentials = self._config.credentials
        credential = await credentials.current()
        async with self._once(request, credential, read_timeout, calls) as response:
            if response.status_code != 401:
                yield response
                return
            await credentials.renew(credential)
            renewed = await credentials.current()
            if renewed == credential:
                yield response
                return
        async with self._once(request, renewed, read_timeout, calls) as response:
            yield response

    @asynccontextmanager
    async def _once(
        self, request: Request, credential: Credential, read_timeout: float | None, calls: bool
    ) -> AsyncGenerator[httpx2.Response]:
        connections = await self._connected(credential.certificate)
        sent = httpx2.Request(
            request.method,
            self._base + _target(request),
            headers=[
                ("user-agent", f"boilerhouse/{version()}"),
                ("accept-encoding", "identity"),
                *request.headers.items(),
                *self._config.headers,
                *credential.headers,
            ],
            content=request.body or None,
            extensions={
                "timeout": {
                    "connect": CONNECT_TIMEOUT,
                    "pool": CONNECT_TIMEOUT,
                    "write": DEADLINE,
                    "read": read_timeout,
                },
                **({"sni_hostname": name} if (name := self._config.server_name) else {}),
            },
        )
        async with connections.use(calls) as pool:
            try:
                response = await pool.handle_async_request(sent)
            except httpx2.LocalProtocolError as error:
                raise BadRequest(f"{_called(request)}: cannot be sent: {error}") from error
            except _ERRORS as error:
                raise Unavailable(f"{_called(request)}: {describe(error)}") from error
            try:
                yield response
            finally:
                await response.aclose()

    async def _connected(self, certificate: Certificate | None) -> _Connections:
        """Return the connections made with this client certificate; a new one gets new ones."""
        if self._connections is None or self._connections.certificate != certificate:
            async with self._opening:
                old = self._connections
                if old is None or old.certificate != certificate:
                    # Reading trust roots from disk is slow enough to be noticed by others.
                    self._connections = await asyncio.to_thread(
                        _Connections, self._config, certificate, self._unix
                    )
                    if old is not None:
                        await old.retire()
        connections = self._connections
        assert connections is not None
        return connections

    async def _whole(self, request: Request, response: httpx2.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in _chunks(request, response):
            size += len(chunk)
            if size > self._body_limit:
                raise ApiError(
                    f"{_called(request)}: the answer is larger than {self._body_limit} bytes",
                    reason="ResponseTooLarge",
                )
            parts.append(chunk)
        return b"".join(parts)


class _Connections:
    """The pools of one client certificate. Retired ones close when the last call has ended."""

    def __init__(self, config: Config, certificate: Certificate | None, unix: str | None) -> None:
        self.certificate = certificate
        self._users = 0
        self._retired = False
        tls = tls_context(config, certificate)

        def pool(size: int) -> httpx2.AsyncHTTPTransport:
            return httpx2.AsyncHTTPTransport(
                verify=tls,
                trust_env=False,
                http2=False,
                limits=httpx2.Limits(
                    max_connections=size,
                    max_keepalive_connections=min(size, 32),
                    keepalive_expiry=IDLE_SECONDS,
                ),
                proxy=config.proxy or None,
                uds=unix,
                socket_options=None if unix else _KEEP_ALIVE,
            )

        self._calls, self._streams = pool(MAX_CALLS), pool(MAX_STREAMS)

    @asynccontextmanager
    async def use(self, calls: bool) -> AsyncIterator[httpx2.AsyncHTTPTransport]:
        self._users += 1
        try:
            yield self._calls if calls else self._streams
        finally:
            self._users -= 1
            await self._close_if_unused()

    async def retire(self) -> None:
        self._retired = True
        await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if self._retired and self._users == 0:
            await self._calls.aclose()
            await self._streams.aclose()


def tls_context(config: Config, certificate: Certificate | None) -> ssl.SSLContext:
    """Build what TLS needs: whom we trust and who we are."""
    if config.is_unix or config.server.startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used, and costs nothing to make
    try:
        context = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
        # Newer Pythons ask for extensions that the certificates of many clusters do not carry.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            # Python takes a certificate only from files: these are ours alone and live a moment.
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder, name) for name in ("certificate", "key")]
                for path, pem in zip(paths, certificate, strict=True):
                    path.write_bytes(pem)
                context.load_cert_chain(paths[0], paths[1])
    except (ssl.SSLError, ValueError) as error:
        raise BadRequest(f"{config.server}: unusable certificates: {describe(error)}") from error
    return context


async def _chunks(request: Request, response: httpx2.Response) -> AsyncGenerator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except _ERRORS as error:
        raise Unavailable(f"{_called(request)}: {describe(error)}") from error


def _target(request: Request) -> str:
    # A URL library would resolve these and so call something else than what was checked.
    if any(part in (".", "..") for part in request.path.split("/")):
        raise BadRequest(f"{_called(request)}: a path may not contain . or .. segments")
    path = quote(request.path, safe=_PATH_SAFE)
    return f"{path}?{urlencode(request.query, quote_via=quote)}" if request.query else path


def _headers(response: httpx2.Response) -> dict[str, str]:
    return dict(response.headers.items())


def _called(request: Request) -> str:
    return f"{request.method} {request.path}"
