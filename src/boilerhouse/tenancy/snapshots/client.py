"""What operator and API ask of instances, through the helper.

HelperClient ─► Asking ─► helper ─► agent

Who cannot be reached is told apart: the helper (`HelperUnavailable`, the API says 503), the agent
(`AgentUnavailable`), and what an agent refused (`Refused`, with its status and code).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import Changes, IdentityFiles, Listing, Usage
from boilerhouse.node.helper.layout import TO_AGENT
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.rpc.message import Body, Handler
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.platform.rpc.refusal import JSON
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.asking import ANSWER_LIMIT, Asking, HelperUnavailable

__all__ = ["HelperClient", "HelperUnavailable"]

_FILES = TO_AGENT + protocol.FILES


class HelperClient:
    """The helper, as seen by whoever needs something of an instance. `uid` pins the instance."""

    def __init__(self, client: Client, route: Handler, agents: Agents) -> None:
        self._asking = Asking(client, route, agents)

    async def tell(self, pod: str, uid: str, identity: IdentityFiles) -> None:
        """Write the identity files; `Refused` (409) if the instance is another's already."""
        path = TO_AGENT + protocol.IDENTITY
        await self._asking.whole("PUT", path, body=identity.encode(), pod=pod, uid=uid)

    async def usage(self, pod: str, uid: str = "", *, disk_gb: int = 0) -> Usage:
        """Return the disk use of an instance.

        With `disk_gb`, the limit that its workload has by now, as it was counted last; else it is
        counted now, or was some seconds ago.
        """
        path = TO_AGENT + protocol.USAGE
        query = [("diskGb", str(disk_gb))] if disk_gb else []
        return Usage.decode(await self._asking.whole("GET", path, query, pod=pod, uid=uid))

    async def changes(
        self, pod: str, directories: Sequence[str], *, uid: str = "", since: int | None = None
    ) -> Changes:
        """Return the newest change under directories of an instance; see `Changes`."""
        query = [("dir", path) for path in directories]
        if since is not None:
            query.append(("since", str(since)))
        path = TO_AGENT + protocol.CHANGES
        return Changes.decode(await self._asking.whole("GET", path, query, pod=pod, uid=uid))

    @asynccontextmanager
    async def open_file(
        self, pod: str, path: str, *, uid: str = ""
    ) -> AsyncGenerator[Body | Listing]:
        """Open a file of an instance to be read in pieces, or list a directory."""
        answer = await self._asking.open("GET", _FILES, [("path", path)], pod=pod, uid=uid)
        try:
            if answer.headers.get("content-type") == JSON:
                yield Listing.decode(await answer.body.read(ANSWER_LIMIT))
            else:
                yield answer.body
        except Unreachable as error:
            raise HelperUnavailable(str(error)) from error
        finally:
            await answer.body.close()

    async def write_file(self, pod: str, path: str, body: Body, *, uid: str = "") -> None:
        """Write a file of an instance, whole or not at all."""
        answer = await self._asking.open("PUT", _FILES, [("path", path)], body, pod=pod, uid=uid)
        await answer.body.close()

    async def delete_file(self, pod: str, path: str, *, uid: str = "") -> None:
        """Remove a file or an empty directory of an instance."""
        await self._asking.whole("DELETE", _FILES, [("path", path)], pod=pod, uid=uid)
