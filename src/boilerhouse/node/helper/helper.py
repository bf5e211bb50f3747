"""The helper's own side: it takes what operator and API ask, and asks the agent.

Request (token, which agent) ─► Helper ─┬─► agent ─► Answer, passed on piece by piece
                                        └─► /snapshots ─► store on the volume, agent

Nothing else may reach an agent's port, and the helper itself needs no access to the Kubernetes
API: who asks says where the agent is and with which token, since who asks may know that anyway.
So there is nothing in the helper that would be worth breaking in for but the snapshots.
"""

from __future__ import annotations

import asyncio
import socket

from boilerhouse.node.agent import protocol
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.agentline import Reach, address, by_network
from boilerhouse.node.helper.layout import HEALTHZ, TO_AGENT
from boilerhouse.node.helper.snapshot_routes import Capacity, SnapshotRoutes
from boilerhouse.node.helper.store.store import Store
from boilerhouse.platform.rpc.guard import TokenGuard
from boilerhouse.platform.rpc.message import Answer, Handler, HeldBody, Request
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused
from boilerhouse.platform.rpc.server import Server

CALLS = 64  # to agents, at the same time
QUEUE = 5.0  # seconds that a call waits for its turn

# What goes on to an agent, and how long the agent may take to begin its answer.
_FORWARDED = {
    ("PUT", protocol.IDENTITY): 10.0,
    ("GET", protocol.USAGE): 30.0,
    ("GET", protocol.CHANGES): 30.0,
    ("GET", protocol.FILES): 30.0,
    ("PUT", protocol.FILES): 60.0,
    ("DELETE", protocol.FILES): 30.0,
    ("POST", protocol.THAW): 10.0,
    ("GET", protocol.STATE): 10.0,
}


class Helper:
    """The snapshot helper. It can be asked through a socket (`start`) or in process (`handle`).

    The store is the helper's from now on, and closed by `stop`.
    """

    def __init__(
        self,
        token: str,
        store: Store,
        *,
        reach: Reach = by_network,
        calls: int = CALLS,
        capacity: Capacity | None = None,
    ) -> None:
        self._guard = TokenGuard(token)
        self._reach = reach
        self._snapshots = SnapshotRoutes(store, reach, capacity or Capacity())
        self._places = asyncio.Semaphore(calls)
        self._server = Server("helper", self.handle, connections=4 * calls)

    async def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket, which is the helper's from now on, until `stop`."""
        await self._server.start(listener)

    async def stop(self) -> None:
        """Stop serving; what is under way is cut off."""
        await self._server.stop()
        await self._snapshots.close()

    async def handle(self, request: Request) -> Answer:
        """Answer one request; `Refused` if it is not allowed, or the agent cannot be asked."""
        if request.path == HEALTHZ:
            self._snapshots.check()
            return Answer(204)
        self._guard.check(request)
        if request.path.startswith(wire.SNAPSHOTS):
            return await self._snapshots.handle(request)
        verb = (request.method, request.path.removeprefix(TO_AGENT))
        if not request.path.startswith(TO_AGENT + "/") or verb not in _FORWARDED:
            raise Refused(404, "no-such-path", f"there is no {request.method} {request.path}")
        host, port = address(request.headers.get(protocol.AGENT, ""))
        onwards = Request(
            request.method,
            verb[1],
            request.query,
            {TOKEN_HEADER: request.headers.get(protocol.AGENT_TOKEN, "")},
            request.body,
        )
        return await self._ask(self._reach(host, port, _FORWARDED[verb]), onwards)

    async def _ask(self, agent: Handler, request: Request) -> Answer:
        try:
            async with asyncio.timeout(QUEUE):
                await self._places.acquire()
        except TimeoutError:
            raise Refused(503, "busy", "the helper has too much to do; try again") from None
        try:
            answer = await agent(request)
            if answer.status == 401:
                await answer.body.close()
                raise Refused(502, "agent-token", "the agent does not take the token it was shown")
        except Unreachable as error:
            self._places.release()
            raise Refused(502, "agent-unreachable", f"no answer from the agent: {error}") from None
        except BaseException:
            self._places.release()
            raise
        headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Answer(answer.status, HeldBody(answer.body, self._places.release), headers)


_PASSED_ON = ("content-type",)
