"""An agent, as the helper speaks to it: where it is, and what its answers mean.

Request (headers: which agent, its token) ─► line ─► AgentLine ─► reach ─► agent
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TypeVar

from boilerhouse.node.agent import protocol
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Answer, Body, Handler, Request
from boilerhouse.platform.rpc.peer import Peer
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused

T = TypeVar("T")

Reach = Callable[[str, int, float], Handler]  # host, port, patience


def by_network(host: str, port: int, patience: float) -> Handler:
    return Peer(host, port, patience=patience)


class AgentLine:
    """One agent. Whatever is not a success is `Refused`."""

    def __init__(self, reach: Reach, host: str, port: int, token: str) -> None:
        self._reach = reach
        self._host = host
        self._port = port
        self._token = token

    async def ask(
        self,
        method: str,
        path: str,
        *query: tuple[str, str],
        body: Body | None = None,
        patience: float,
    ) -> Answer:
        """Ask; the answer's body is still to come."""
        request = Request(method, path, query, {TOKEN_HEADER: self._token}, body or Body())
        try:
            answer = await self._reach(self._host, self._port, patience)(request)
            if answer.status < 300:
                return answer
            try:
                told = await answer.body.read(protocol.SMALL_LIMIT)
            finally:
                await answer.body.close()
        except (Broken, TimeoutError) as error:
            raise unreachable(error) from error
        raise _refused(Refused.of(answer.status, told))

    async def told(
        self,
        decode: Callable[[bytes], T],
        method: str,
        path: str,
        *query: tuple[str, str],
        patience: float,
    ) -> T:
        """Ask, and return what a small answer says."""
        answer = await self.ask(method, path, *query, patience=patience)
        return await read_small(answer, decode)


async def read_small(answer: Answer, decode: Callable[[bytes], T]) -> T:
    """Read an answer that is small, and close it."""
    try:
        return decode(await answer.body.read(protocol.SMALL_LIMIT))
    except (Broken, TimeoutError) as error:
        raise unreachable(error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(502, "agent-unreachable", f"the agent talks nonsense: {error!r}") from error
    finally:
        await answer.body.close()


def unreachable(error: Exception) -> Refused:
    return Refused(502, "agent-unreachable", f"no answer from the agent: {error}")


def _refused(told: Refused) -> Refused:
    """An agent's refusal, so that it cannot be taken for the helper's own."""
    if told.status == 401:
        return Refused(502, "agent-token", "the agent does not take the token it was shown")
    if told.status in (500, 503) and told.code != protocol.SAVE_FAILED:
        return unreachable(told)
    return told


def line(reach: Reach, request: Request) -> AgentLine:
    """Return the agent that a request means."""
    host, port = address(request.headers.get(protocol.AGENT, ""))
    return AgentLine(reach, host, port, request.headers.get(protocol.AGENT_TOKEN, ""))


def address(text: str) -> tuple[str, int]:
    """Read host:port. Never a name: there is nothing to look up, or to be misled by."""
    host, _, port = text.rpartition(":")
    try:
        parsed = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise Refused(400, "bad-agent", f"{protocol.AGENT} holds an address and a port")
    return str(parsed), number
