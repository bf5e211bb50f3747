"""/instances/{id}/logs: what the tenant's program has written, and goes on to write."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter

from boilerhouse.edge.api.auth import INSTANCES_READ, Call, caller_of
from boilerhouse.edge.api.errors import conflict
from boilerhouse.edge.api.handlers.instances import found, tenant_of
from boilerhouse.edge.api.inputs import moment
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import TheServices
from boilerhouse.edge.api.streaming import Streaming
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.status import BadRequest

TEXT = "text/plain; charset=utf-8"

Tail = Annotated[int | None, QueryParameter(ge=0, le=1_000_000, description="Only the last lines.")]


@get(
    f"{V1}/instances/{{name:str}}/logs",
    opt={"scope": INSTANCES_READ},
    media_type=TEXT,
)
async def instance_logs(
    name: FromPath[str],
    services: TheServices,
    request: Call,
    tail: Tail = None,
    since: FromQuery[str | None] = None,
    follow: FromQuery[bool] = False,
    previous: FromQuery[bool] = False,
) -> Streaming:
    """Return all of the log as text; `follow` goes on until the program or the caller ends."""
    pod = await found(services, request, name)
    start = None if since is None else moment(since, services.clock)
    container = tenant_container(pod)
    try:
        async with AsyncExitStack() as opening:
            opening.enter_context(services.logs.place(caller_of(request), tenant_of(pod)))
            chunks = await opening.enter_async_context(
                services.client.pods.open_log(
                    name,
                    container=container,
                    tail=tail,
                    since=start,
                    previous=previous,
                    follow=follow,
                )
            )
            if follow:
                await opening.enter_async_context(services.activity.busy(services.claim_of(pod)))
            opened = opening.pop_all()
    except BadRequest as error:
        # The node's word for a container that has not started, or never wrote anything.
        raise conflict("NoLogs", f"instance {name!r} has no logs now: {error.message}") from None
    return Streaming(services.streams, chunks, media_type=TEXT, opened=opened)


def tenant_container(pod: Pod) -> str:
    """Return the name of the container that is the tenant's: the first one."""
    return pod.spec.containers[0].name if pod.spec.containers else ""
