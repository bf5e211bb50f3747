"""What operator and API ask of instances, through the helper.

HelperClient ─► route (direct, proxied, in process) ─► helper ─► agent

Who cannot be reached is told apart: the helper (`HelperUnavailable`, the API says 503), the agent
(`AgentUnavailable`), and what an agent refused (`Refused`, with its status and code).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from boilerhouse.agent import protocol
from boilerhouse.agent.message import Answer, Body, Handler, Request
from boilerhouse.agent.peer import Unreachable
from boilerhouse.agent.protocol import Changes, IdentityFiles, Listing, Refused, Usage
from boilerhouse.core.errors import Retry
from boilerhouse.helper.agents import Agents, AgentUnavailable
from boilerhouse.helper.layout import SECRET, TO_AGENT
from boilerhouse.kube.client import Client
from boilerhouse.kube.resources import SECRETS
from boilerhouse.kube.status import NotFound

_ANSWER_LIMIT = 8 << 20  # of an answer that is read whole; a full listing is some 2 MiB


class HelperUnavailable(Retry):
    """The snapshot helper cannot be asked now."""


class HelperClient:
    """The helper, as seen by whoever needs something of an instance. `uid` pins the instance."""

    def __init__(self, client: Client, route: Handler, agents: Agents) -> None:
        self._client = client
        self._route = route
        self._agents = agents
        self._token = ""

    async def tell(self, pod: str, uid: str, identity: IdentityFiles) -> None:
        """Write the identity files; `Refused` (409) if the instance is another's already."""
        await self._whole("PUT", protocol.IDENTITY, pod, uid, body=identity.encode())

    async def usage(self, pod: str, uid: str = "") -> Usage:
        """Return the disk use of an instance's overlay directories."""
        return Usage.decode(await self._whole("GET", protocol.USAGE, pod, uid))

    async def changes(
        self, pod: str, directories: Sequence[str], *, uid: str = "", since: int | None = None
    ) -> Changes:
        """Return the newest change under directories of an instance; see `Changes`."""
        query = [("dir", path) for path in directories]
        if since is not None:
            query.append(("since", str(since)))
        return Changes.decode(await self._whole("GET", protocol.CHANGES, pod, uid, query))

    @asynccontextmanager
    async def open_file(
        self, pod: str, path: str, *, uid: str = ""
    ) -> AsyncGenerator[Body | Listing]:
        """Open a file of an instance to be read in pieces, or list a directory."""
        answer = await self._ask("GET", protocol.FILES, pod, uid, [("path", path)], Body())
        try:
            if answer.headers.get("content-type") == protocol.JSON:
                yield Listing.decode(await answer.body.read(_ANSWER_LIMIT))
            else:
                yield answer.body
        except Unreachable as error:
            raise HelperUnavailable(str(error)) from error
        finally:
            await answer.body.close()

    async def write_file(self, pod: str, path: str, body: Body, *, uid: str = "") -> None:
        """Write a file of an instance, whole or not at all."""
        answer = await self._ask("PUT", protocol.FILES, pod, uid, [("path", path)], body)
        await answer.body.close()

    async def delete_file(self, pod: str, path: str, *, uid: str = "") -> None:
        """Remove a file or an empty directory of an instance."""
        await self._whole("DELETE", protocol.FILES, pod, uid, [("path", path)])

    async def _whole(
        self,
        method: str,
        path: str,
        pod: str,
        uid: str,
        query: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> bytes:
        answer = await self._ask(method, path, pod, uid, query, Body(body))
        try:
            return await answer.body.read(_ANSWER_LIMIT)
        except Unreachable as error:
            raise HelperUnavailable(str(error)) from error
        finally:
            await answer.body.close()

    async def _ask(
        self,
        method: str,
        path: str,
        pod: str,
        uid: str,
        query: Sequence[tuple[str, str]],
        body: Body,
    ) -> Answer:
        """Ask; return a success. Tokens that are no longer the right ones are forgotten."""
        agent = await self._agents.find(pod, uid)
        headers = {
            protocol.TOKEN: self._token or await self._look_up_token(),
            protocol.AGENT: agent.address,
            protocol.AGENT_TOKEN: agent.token,
        }
        request = Request(method, TO_AGENT + path, tuple(query), headers, body)
        try:
            answer = await self._route(request)
            if answer.status < 300:
                return answer
            refused = Refused.of(answer.status, await self._drained(answer))
        except Refused as error:  # of a helper in this process
            refused = error
        except Unreachable as error:
            raise HelperUnavailable(f"the snapshot helper does not answer: {error}") from error
        match refused.code:
            case "unauthorized":
                self._token = ""
                raise HelperUnavailable("the snapshot helper has another token by now")
            case "agent-token" | "agent-unreachable":
                self._agents.forget(pod)
                raise AgentUnavailable(f"instance {pod}: {refused}")
        if refused.status in (500, 503):
            raise HelperUnavailable(str(refused))
        raise refused

    async def _drained(self, answer: Answer) -> bytes:
        try:
            return await answer.body.read(protocol.SMALL_LIMIT)
        finally:
            await answer.body.close()

    async def _look_up_token(self) -> str:
        try:
            secret = await self._client.get(SECRETS, SECRET)
            self._token = secret.data["token"].decode()
        except (NotFound, KeyError):
            raise HelperUnavailable("the snapshot helper is not set up yet") from None
        return self._token
