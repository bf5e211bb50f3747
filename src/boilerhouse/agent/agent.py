"""The agent: what it answers, and to whom.

helper ─► Server ─► token ─► route ─► identity | survey | files

It holds no state of its own but a cached figure; it can be killed and started at any moment.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boilerhouse.agent import protocol
from boilerhouse.agent.files import Files
from boilerhouse.agent.guard import TokenGuard
from boilerhouse.agent.identity import IdentityDirectory
from boilerhouse.agent.message import Answer, Handler, Request, json_answer
from boilerhouse.agent.overlays import Overlays
from boilerhouse.agent.processes import Processes
from boilerhouse.agent.protocol import IdentityFiles, Refused
from boilerhouse.agent.server import Server
from boilerhouse.agent.survey import Survey
from boilerhouse.core.clock import Clock


@dataclass(frozen=True, slots=True)
class Config:
    """Where an agent's things are. `overlays`: path in the instance ─► directory here."""

    identity: Path
    overlays: Mapping[str, Path]
    token: str = field(repr=False)


class Agent:
    """One instance's agent. It can be asked through a socket (`start`) or in process (`handle`)."""

    def __init__(self, config: Config, processes: Processes, clock: Clock) -> None:
        overlays = Overlays(config.overlays)
        self._guard = TokenGuard(config.token)
        self._identity = IdentityDirectory(config.identity)
        self._survey = Survey(overlays, clock)
        self._files = Files(overlays, processes)
        self._server = Server("agent", self.handle, connections=32)
        self._routes: dict[tuple[str, str], Handler] = {
            ("PUT", protocol.IDENTITY): self._put_identity,
            ("GET", protocol.USAGE): self._get_usage,
            ("GET", protocol.CHANGES): self._get_changes,
            ("GET", protocol.FILES): self._get_file,
            ("PUT", protocol.FILES): self._put_file,
            ("DELETE", protocol.FILES): self._delete_file,
        }

    async def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket, which is the agent's from now on, until `stop`."""
        await self._server.start(listener)

    async def stop(self) -> None:
        """Stop serving; what is under way is cut off."""
        await self._server.stop()

    async def handle(self, request: Request) -> Answer:
        """Answer one request; `Refused` if it is not for us, or not allowed."""
        if request.path == protocol.STARTED:
            return self._started()
        self._guard.check(request)
        return await route(self._routes, request)

    def _started(self) -> Answer:
        """Answer kubelet's startup probe: the tenant's container starts after the first success.

        So what an instance must have before its tenant starts is waited for here.
        """
        return Answer(204)

    async def _put_identity(self, request: Request) -> Answer:
        body = await request.body.read(protocol.SMALL_LIMIT)
        await self._identity.tell(IdentityFiles.decode(body))
        return Answer(204)

    async def _get_usage(self, request: Request) -> Answer:
        return json_answer((await self._survey.usage()).encode())

    async def _get_changes(self, request: Request) -> Answer:
        since = request.param("since")
        if since is not None and not (since.isascii() and since.isdecimal() and len(since) < 20):
            raise Refused(400, "bad-since", "since is a time in nanoseconds since 1970")
        changes = await self._survey.changes(
            request.params("dir"), None if since is None else int(since)
        )
        return json_answer(changes.encode())

    async def _get_file(self, request: Request) -> Answer:
        return await self._files.get(_path(request))

    async def _put_file(self, request: Request) -> Answer:
        return await self._files.put(_path(request), request.body)

    async def _delete_file(self, request: Request) -> Answer:
        return await self._files.delete(_path(request))


async def route(routes: Mapping[tuple[str, str], Handler], request: Request) -> Answer:
    """Hand a request to the handler of its method and path."""
    handler = routes.get((request.method, request.path))
    if handler is not None:
        return await handler(request)
    if any(path == request.path for _, path in routes):
        raise Refused(405, "bad-method", f"{request.path} does not know {request.method}")
    raise Refused(404, "no-such-path", f"there is nothing at {request.path}")


def _path(request: Request) -> str:
    path = request.param("path")
    if path is None:
        raise Refused(400, "bad-path", "the parameter path is missing")
    return path
