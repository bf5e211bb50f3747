"""Asking the helper: its token, the agent that is meant, and whose fault a failure is.

HelperClient, SnapshotClient ─► Asking ─► route (direct, proxied, in process) ─► helper
"""

from __future__ import annotations

from collections.abc import Sequence

from boilerhouse.core.errors import Retry
from boilerhouse.node.agent import protocol
from boilerhouse.node.helper.layout import SECRET
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.rpc.message import Answer, Body, Handler, Request
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused
from boilerhouse.tenancy.snapshots.agents import Agents, AgentUnavailable

ANSWER_LIMIT = 8 << 20  # of an answer that is read whole; a full listing is some 2 MiB

Query = Sequence[tuple[str, str]]


class HelperUnavailable(Retry):
    """The snapshot helper cannot be asked now."""


class Asking:
    """Requests to the helper. With `pod`, the agent of that Pod is meant; `uid` pins the Pod."""

    def __init__(self, client: Client, route: Handler, agents: Agents) -> None:
        self._client = client
        self._route = route
        self._agents = agents
        self._token = ""

    async def whole(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes = b"",
        *,
        pod: str = "",
        uid: str = "",
    ) -> bytes:
        """Ask, and return all of the answer's body."""
        answer = await self.open(method, path, query, Body(body), pod=pod, uid=uid)
        return await read(answer)

    async def open(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: Body | None = None,
        *,
        pod: str = "",
        uid: str = "",
    ) -> Answer:
        """Ask; return a success. Tokens that are no longer the right ones are forgotten."""
        headers = {}
        if pod:
            agent = await self._agents.find(pod, uid)
            headers = {protocol.AGENT: agent.address, protocol.AGENT_TOKEN: agent.token}
        headers[TOKEN_HEADER] = self._token or await self._look_up_token()
        request = Request(method, path, tuple(query), headers, body or Body())
        try:
            answer = await self._route(request)
            if answer.status < 300:
                return answer
            refused = Refused.of(answer.status, await _drained(answer))
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

    async def _look_up_token(self) -> str:
        try:
            secret = await self._client.get(SECRETS, SECRET)
            self._token = secret.data["token"].decode()
        except (NotFound, KeyError):
            raise HelperUnavailable("the snapshot helper is not set up yet") from None
        return self._token


async def read(answer: Answer) -> bytes:
    """Return the whole body of an answer, and close it."""
    try:
        return await answer.body.read(ANSWER_LIMIT)
    except Unreachable as error:
        raise HelperUnavailable(str(error)) from error
    finally:
        await answer.body.close()


async def _drained(answer: Answer) -> bytes:
    try:
        return await answer.body.read(protocol.SMALL_LIMIT)
    finally:
        await answer.body.close()
