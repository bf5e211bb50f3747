"""Running a server of ours as a process of its own: in a container, until told to stop.

main ─► serve(start, port) ─► SIGTERM or SIGINT ─► not needed any more ─► stop
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol


class Serves(Protocol):
    """Agent or helper."""

    async def start(self, listener: socket.socket) -> None: ...

    async def stop(self) -> None: ...


async def serve(
    server: Serves, port: int, dispensable: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Serve on a port of all addresses until a signal comes, and then until `dispensable`."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await server.start(listen(port))
    logging.getLogger(__name__).info("listening on port %d", port)
    await stopping.wait()
    if dispensable is not None:
        await dispensable()
    await server.stop()


def listen(port: int) -> socket.socket:
    """Bind a port for IPv4 and IPv6 alike, or IPv4 alone where there is no other."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
        )
    return socket.create_server(("", port), backlog=128)


def read_token(file: Path) -> str:
    """Read a token from a mounted Secret."""
    try:
        return file.read_text().strip()
    except OSError as error:
        sys.exit(f"the token cannot be read: {error}")


def log_json() -> None:
    """Log to stderr, one JSON object a line, without what a bigger logging library would cost."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ"),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
