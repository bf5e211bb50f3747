"""The REST API's listener: plain HTTP on loopback unless there is a key to guard it.

Services ─► application ─► Listener ─► http://127.0.0.1:3000
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from boilerhouse.core import connections
from boilerhouse.core.environment import KEY_VARIABLE
from boilerhouse.core.supervision import supervised
from boilerhouse.edge.api.app import application
from boilerhouse.edge.api.auth import is_loopback
from boilerhouse.edge.api.services import Services
from boilerhouse.platform.serving.listening import Listener, ListenError, bind

PORT = 3000


KEY_CHARACTERS = 16


def bind_api(host: str, port: int, *, key: str) -> socket.socket:
    """Bind the API's port; without a key only where nobody else can reach it."""
    host = "127.0.0.1" if host == "localhost" else host
    if not key and not is_loopback(host):
        raise ListenError(
            f"will not listen on {host} without a key: set {KEY_VARIABLE}, or use 127.0.0.1"
        )
    if not is_loopback(host) and is_weak(key):
        raise ListenError(
            f"will not listen on {host} with the key in {KEY_VARIABLE}, which can be guessed: make"
            f" one of {KEY_CHARACTERS} characters or more, such as by"
            f' export {KEY_VARIABLE}="$(head -c 24 /dev/urandom | base64)"'
        )
    try:
        return bind(host, [port])
    except ListenError as error:
        if not error.in_use:
            raise
        other = port + 1 if port < 65535 else port - 1
        raise ListenError(
            f"{error}: end what listens there, or choose another port with --port {other}"
            f" (make up ARGS='--port {other}')"
        ) from error


def is_weak(key: str) -> bool:
    """Whether a key could be guessed by whoever may try often: too short, or of few characters."""
    return len(key) < KEY_CHARACTERS or len(set(key)) < KEY_CHARACTERS // 2


def address_of(bound: socket.socket) -> str:
    """Return the URL that callers on this machine use."""
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


@asynccontextmanager
async def serving(services: Services, bound: socket.socket) -> AsyncGenerator[str]:
    """Serve the REST API, while the context lasts; yields the address."""
    listener = Listener(bound, application(services), connections.API)
    await listener.start()
    ticking = asyncio.create_task(supervised("clock of the API", lambda: _tick(listener)))
    try:
        yield address_of(bound)
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        await listener.stop()


async def _tick(listener: Listener) -> None:
    while True:
        await asyncio.sleep(1)
        await listener.tick()
