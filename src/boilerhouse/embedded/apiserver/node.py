"""The port through which a kubelet of our own answers for its Pods.

client ─► pods/log, exec, attach, portforward, proxy ─► verbs/pods.py ─► Node (registered by name)

The API server runs no containers. Whoever does registers a `Node` under the name of its Node
object (`ApiServer.nodes`); without one the answer is the real server's: that node is not reachable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream


@dataclass(frozen=True, slots=True)
class Session:
    """An accepted WebSocket in the making: answer with `subprotocol`, then `run` it to its end."""

    subprotocol: str | None
    run: Callable[[Socket], Awaitable[None]]


class Node(Protocol):
    """What a kubelet answers for one Pod. `pod` is the stored object and is not to be changed.

    Errors are raised as `kube.status.ApiError`, and become the answer.
    """

    async def logs(self, pod: Body, request: Request) -> Reply | Stream:
        """Answer `pods/log`; the options are the request's query parameters."""
        ...

    async def proxy(self, pod: Body, port: str, path: str, request: Request) -> Reply | Stream:
        """Forward a request to a port of the Pod ("" = the first one it declares)."""
        ...

    async def open(
        self, pod: Body, subresource: str, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        """Begin `exec`, `attach` or `portforward`, or a proxied WebSocket (`proxy`)."""
        ...
