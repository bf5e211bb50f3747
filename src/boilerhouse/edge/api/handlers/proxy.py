"""/tenants/{id}/workloads/{workload}/proxy/…: HTTP to what the tenant's program serves.

request ─► the claim, woken if it went idle ─► pods/proxy ─► the program's answer, as it comes

Who comes this way is activity: the instance is not hibernated under its users, and what was
hibernated for idleness is brought back while the request waits. What somebody released is not: it
has to be claimed again.

What answers is a tenant's program, and hostile. It never sees our key nor our cookies, and a page
of it that a browser shows has an origin of its own, without cookies.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from litestar import HttpMethod, route
from litestar.params import FromPath

from boilerhouse.core import names
from boilerhouse.edge.api.auth import ADMIN, Call, caller_of
from boilerhouse.edge.api.errors import Problem, conflict
from boilerhouse.edge.api.handlers.tenants import acquired
from boilerhouse.edge.api.hangup import Connected
from boilerhouse.edge.api.inputs import DEFAULT_WAIT, tenant_id
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.streaming import Streaming
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.tenancy.claims.objects import Claim

SILENCE = 300.0  # seconds without a byte after which an answer is given up
SANDBOX = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

_METHODS = [
    HttpMethod.GET,
    HttpMethod.HEAD,
    HttpMethod.POST,
    HttpMethod.PUT,
    HttpMethod.PATCH,
    HttpMethod.DELETE,
]
# What belongs to one connection, and what a browser or a script shows to us alone.
_NOT_SENT = frozenset(
    {
        "authorization", "connection", "content-length", "cookie", "expect", "host", "keep-alive",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
# The same of an answer, and what would reach beyond the page that was asked for.
_NOT_ANSWERED = frozenset(
    {
        "cache-control", "clear-site-data", "connection", "content-security-policy",
        "content-type", "date", "keep-alive", "service-worker-allowed", "set-cookie", "set-cookie2",
        "strict-transport-security", "trailer", "transfer-encoding", "upgrade", "x-frame-options",
        "x-content-type-options",
    }
)  # fmt: skip

_BASE = f"{V1}/tenants/{{tenant:str}}/workloads/{{workload:str}}/proxy"


@route([_BASE, f"{_BASE}/{{rest:path}}"], http_method=_METHODS, opt={"scope": ADMIN})
async def proxy(
    tenant: FromPath[str],
    workload: FromPath[str],
    services: TheServices,
    request: Call,
    rest: FromPath[str] = "/",
) -> Streaming:
    """Pass a request on to the first port the workload exposes, and its answer back."""
    tenant = tenant_id(tenant)
    body = await request.body()
    with Connected(request.receive, services.streams):
        claim = await _awake(services, tenant, workload)
        pod = await services.instance(_instance(claim))
        await services.wait_for_identity(pod)
    opened = AsyncExitStack()
    try:
        opened.enter_context(services.proxied.place(caller_of(request), tenant))
        await opened.enter_async_context(services.activity.busy(claim))
        stream = await opened.enter_async_context(
            services.client.pods.proxy_stream(
                pod.metadata.name,
                _port(pod),
                rest,
                method=request.method,
                query=[*request.query_params.multi_items()],
                headers={k: v for k, v in request.headers.items() if k not in _NOT_SENT},
                body=body,
                read_timeout=SILENCE,
            )
        )
    except BaseException:
        await opened.aclose()
        raise
    return Streaming(
        services.streams,
        stream.chunks,
        media_type=stream.headers.get("content-type", "application/octet-stream"),
        opened=opened,
        headers=_answered(stream.headers),
        status=stream.status,
    )


async def _awake(services: Services, tenant: str, workload: str) -> Claim:
    """Return the tenant's Active claim, brought back if it went idle."""
    held = await services.operator.holdings.find(tenant, workload)
    if not held:
        message = f"tenant {tenant!r} has no claim on {workload!r}: claim it first"
        raise Problem(404, "ClaimNotFound", message)
    meta = held[0].metadata
    if meta.deletion_timestamp is not None or names.RELEASE in meta.annotations:
        raise conflict("Released", f"the instance of tenant {tenant!r} is being released")
    got = await acquired(services, tenant, workload, True, DEFAULT_WAIT)
    if got.claim is None or not got.usable:
        detail = "" if got.claim is None or got.claim.status is None else got.claim.status.detail
        message = f"the tenant's instance is not ready: {detail or got.phase}"
        raise Problem(503, "InstanceNotReady", message)
    return got.claim


def _instance(claim: Claim) -> str:
    assert claim.status is not None, "it is usable"
    return claim.status.instance_id


def _port(pod: Pod) -> int:
    """Return the port inside the instance: the first that its workload exposes."""
    for container in pod.spec.containers[:1]:
        for port in container.ports:
            return port.container_port
    name = pod.metadata.labels.get(names.WORKLOAD, "")
    raise conflict("NothingExposed", f"workload {name!r} exposes no port (network.expose)")


def _answered(headers: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in headers.items() if k.lower() not in _NOT_ANSWERED}
    theirs = headers.get("content-security-policy")
    return kept | {"content-security-policy": f"{SANDBOX}, {theirs}" if theirs else SANDBOX}
