"""Pods for stories on the embedded kubelet, of programs that every machine has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Body = dict[str, Any]

# Answers every request with its text, whatever was asked.
_SERVER = """
import socket, sys
listening = socket.create_server(("0.0.0.0", int(sys.argv[1])))
answer = sys.argv[2].encode()
while True:
    client, _ = listening.accept()
    client.recv(65536)
    head = b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n"
    client.sendall(head % len(answer) + answer)
    client.close()
"""


def sh(script: str, name: str = "main", **more: Any) -> Body:
    """A container of the image `host` that runs a shell script."""
    return {"name": name, "image": "host", "command": ["/bin/sh", "-c", script], **more}


def server(answer: str, port: int = 8080, name: str = "main", **more: Any) -> Body:
    """A container that answers HTTP, with a readiness probe that asks for it."""
    return {
        "name": name,
        "image": "host",
        "command": ["/usr/bin/python3", "-S", "-c", _SERVER, str(port), answer],
        "ports": [{"containerPort": port, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        **more,
    }


def pod(name: str, *containers: Body, **spec: Any) -> Body:
    labels = spec.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": list(containers),
            **spec,
        },
    }


async def eventually(holds: Callable[[], Awaitable[bool]], timeout: float = 20) -> None:
    """Ask until it holds: for what has no watch, such as files and processes."""
    async with asyncio.timeout(timeout):
        while not await holds():  # noqa: ASYNC110  there is nothing to wait on
            await asyncio.sleep(0.02)
