"""`/healthz`, `/readyz` and `/metrics`: what the outside may ask a running process.

Health is a list of complaints. None is 200 "ok"; any is 503 with one line each, so that whoever
curls it at night reads the reason and not a number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

Complaints = Callable[[], list[str]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Probes:
    """A small ASGI application, to be served by itself or mounted in a larger one."""

    def __init__(self, *, healthy: Complaints, ready: Complaints) -> None:
        self._checks = {"/healthz": healthy, "/livez": healthy, "/readyz": ready}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, content_type, body = self.answer(scope["method"], scope["path"])
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": body})

    def answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body."""
        text = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return 405, text, b"only GET and HEAD\n"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(REGISTRY)
        check = self._checks.get(path)
        if check is None:
            return 404, text, b"there are /healthz, /livez, /readyz and /metrics\n"
        complaints = check()
        if complaints:
            return 503, text, "".join(f"{line}\n" for line in complaints).encode()
        return 200, text, b"ok\n"
