"""/instances/{id}/files: what lies in an instance's overlay directories, by way of its agent.

caller ─► HelperClient ─► helper ─► agent ─► file | directory
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, put
from litestar.params import FromPath, QueryParameter

from boilerhouse.edge.api.auth import INSTANCES_EXEC, INSTANCES_READ, Call, caller_of
from boilerhouse.edge.api.errors import Problem
from boilerhouse.edge.api.handlers.instances import found, tenant_of
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.streaming import Streaming
from boilerhouse.node.agent.protocol import Listing
from boilerhouse.platform.rpc.message import Body
from boilerhouse.tenancy.snapshots.client import HelperClient

PATH = f"{V1}/instances/{{name:str}}/files"
Where = Annotated[
    str,
    QueryParameter(name="path", min_length=1, max_length=4096, description="Absolute."),
]


class FileDone(msgspec.Struct):
    path: str
    status: str  # "written" or "deleted"


@get(PATH, opt={"scope": INSTANCES_READ}, media_type="application/octet-stream")
async def read_file(
    name: FromPath[str], path: Where, services: TheServices, request: Call
) -> Response[Any]:
    """Return a file's bytes, or the entries of a directory as JSON."""
    pod = await found(services, request, name)
    async with AsyncExitStack() as opening:
        opening.enter_context(services.files.place(caller_of(request), tenant_of(pod)))
        await opening.enter_async_context(services.activity.busy(services.claim_of(pod)))
        content = await opening.enter_async_context(
            _helper(services).open_file(name, path, uid=pod.metadata.uid)
        )
        if isinstance(content, Listing):
            return Response(content.encode(), media_type="application/json")
        opened = opening.pop_all()
    pieces = _pieces(content)
    return Streaming(services.streams, pieces, media_type="application/octet-stream", opened=opened)


@put(PATH, opt={"scope": INSTANCES_EXEC}, status_code=200)
async def write_file(
    name: FromPath[str], path: Where, services: TheServices, request: Call
) -> FileDone:
    """Write a file, whole or not at all."""
    pod = await found(services, request, name)
    with services.files.place(caller_of(request), tenant_of(pod)):
        content = Body(await request.body())
        async with services.activity.busy(services.claim_of(pod)):
            await _helper(services).write_file(name, path, content, uid=pod.metadata.uid)
    return FileDone(path, "written")


@delete(PATH, opt={"scope": INSTANCES_EXEC}, status_code=200)
async def delete_file(
    name: FromPath[str], path: Where, services: TheServices, request: Call
) -> FileDone:
    """Remove a file or an empty directory."""
    pod = await found(services, request, name)
    async with services.activity.busy(services.claim_of(pod)):
        await _helper(services).delete_file(name, path, uid=pod.metadata.uid)
    return FileDone(path, "deleted")


def _helper(services: Services) -> HelperClient:
    if services.helper is None:
        raise Problem(503, "HelperUnavailable", "there is no snapshot helper to ask")
    return services.helper


async def _pieces(content: Body) -> AsyncIterator[bytes]:
    async for piece in content:
        yield piece
