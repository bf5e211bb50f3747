"""/tenants: claims, and who has what."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, JSONBody

from boilerhouse.core.names import claim_name
from boilerhouse.edge.api import views
from boilerhouse.edge.api.auth import ADMIN, TENANTS_READ, Call, caller_of
from boilerhouse.edge.api.errors import Problem, conflict, not_found
from boilerhouse.edge.api.hangup import Connected
from boilerhouse.edge.api.informers import listed
from boilerhouse.edge.api.inputs import (
    DEFAULT_WAIT,
    SHORTEST,
    Name,
    Wait,
    one_workload,
    own_tenant,
    tenant_id,
)
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.decide import error_reason
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Source
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.requests.acquire import (
    Acquired,
    AnotherTenant,
    ClaimDeleted,
    UnknownWorkload,
)


class ClaimRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Which workload; `workloadRef` is another name for it."""

    workload: Name | None = None
    workload_ref: Name | None = None
    resume: bool = True


@post(f"{V1}/tenants/{{tenant:str}}/claim", opt={"scope": ADMIN}, status_code=201)
async def claim(
    tenant: FromPath[str],
    data: JSONBody[ClaimRequest],
    services: TheServices,
    request: Call,
    wait: Wait = DEFAULT_WAIT,
) -> Response[views.Claimed]:
    """Give a tenant its instance: 200 if it runs already, 201 if made, 202 if still pending.

    One that is frozen because its disk is full is there: `detail` says so, and the ways out.
    """
    began = services.clock.monotonic()
    tenant = tenant_id(tenant)
    workload = one_workload(data.workload, data.workload_ref)
    with (
        services.held.place(caller_of(request), tenant),
        Connected(request.receive, services.streams),
    ):
        got = await acquired(services, tenant, workload, data.resume, max(wait, SHORTEST))
    found = got.claim
    if found is None:
        return _pending(tenant, workload, ClaimPhase.RELEASING)
    if got.phase == ClaimPhase.ERROR:
        raise _failed(found)
    total = services.clock.monotonic() - began
    pod = services.pod_of(found)
    body = views.claimed(found, pod, source=got.source, stages=got.timings, total=total)
    if not got.usable and not got.frozen:
        return Response(body, status_code=202, headers=_location(tenant))
    return Response(body, status_code=200 if got.source == Source.EXISTING else 201)


async def acquired(
    services: Services, tenant: str, workload: str, resume: bool, wait: float
) -> Acquired:
    """Give a tenant its instance, before what nobody waits for; raises `Problem`."""
    wanted = Key(services.operator.client.namespace, claim_name(tenant, workload))
    try:
        with services.operator.gate.foreground(wanted):
            return await _acquired(services, tenant, workload, resume, wait)
    except UnknownWorkload:
        raise not_found("Workload", workload) from None
    except AnotherTenant as error:
        raise conflict("ClaimTaken", str(error)) from None
    except ClaimDeleted as error:
        raise _deleted(error.claim) from None


async def _acquired(
    services: Services, tenant: str, workload: str, resume: bool, wait: float
) -> Acquired:
    """Acquire. An instance that ran already may be about to be released for idleness: the answer
    is given only once activity is noted in time; else the claim that follows is waited for."""
    clock, left = services.clock, wait
    end = clock.monotonic() + wait
    while True:
        got = await services.operator.acquirer.acquire(
            tenant, workload, resume=resume, wait=timedelta(seconds=left)
        )
        if got.claim is None or not got.usable:
            return got
        if got.source != Source.EXISTING:
            services.activity.made(got.claim)
            return got
        noted = await services.activity.noted(got.claim)
        got = msgspec.structs.replace(got, claim=noted)
        now = clock.monotonic()
        if got.usable or now >= end:
            return got
        left = max(end - now, SHORTEST)


@get(f"{V1}/tenants", opt={"scope": TENANTS_READ})
async def list_tenants(services: TheServices, request: Call) -> list[views.Tenant]:
    """Return every tenant with its claims, by id."""
    caller = caller_of(request)
    seen = [
        claim
        for claim in listed(services.informers.claims)
        if caller.sees(claim.spec.tenant_id, claim.spec.workload_ref)
    ]
    return views.tenants(seen, services.pod_of)


@get(f"{V1}/tenants/{{tenant:str}}", opt={"scope": TENANTS_READ})
async def get_tenant(tenant: FromPath[str], services: TheServices, request: Call) -> views.Tenant:
    """Return one tenant with its claims."""
    caller = caller_of(request)
    tenant = own_tenant(caller, tenant)
    held = [
        claim
        for claim in listed(services.informers.claims)
        if claim.spec.tenant_id == tenant and caller.sees(tenant, claim.spec.workload_ref)
    ]
    if not held:
        held = await _live(services, tenant)
    found = views.tenants(held, services.pod_of)
    if found:
        return found[0]
    # Whoever was hibernated and removed is a tenant still: there is something to come back to.
    if services.snapshots is not None and await services.snapshots.list(
        tenant=tenant, workload=caller.workload
    ):
        return views.Tenant(tenant_id=tenant, claims=[])
    raise Problem(404, "TenantNotFound", f"tenant {tenant!r} has no claims")


async def _live(services: Services, tenant: str) -> list[Claim]:
    """Ask the server itself, for each workload there is, before saying that there is nothing."""
    workloads = [key.name for key in services.informers.workloads.cache]
    return [
        claim for name in workloads for claim in await services.operator.holdings.find(tenant, name)
    ]


def _pending(tenant: str, workload: str, phase: ClaimPhase) -> Response[views.Claimed]:
    """Answer for a claim that cannot even begin: the one before it is still on its way out."""
    body = views.Claimed(
        tenant_id=tenant,
        phase=phase,
        workload_ref=workload,
        claim=claim_name(tenant, workload),
        timings={},
        detail="the tenant's last instance is still being released",
    )
    return Response(body, status_code=202, headers=_location(tenant))


def _location(tenant: str) -> dict[str, str]:
    return {"location": f"/api/v1/tenants/{quote(tenant, safe='')}"}


def _deleted(claim: Claim) -> Problem:
    """Say why a claim that was deleted and could not be saved is in the way, and the ways out."""
    status = claim.status or ClaimStatus()
    details = views.failed_release(status.phase, status.release)
    message = (
        f"{claim.metadata.name} was deleted, and what is deleted cannot be claimed again. Its"
        f" instance is kept, because {status.detail}. Try again to save it (release/retry), or give"
        " its files up (release/force); then claim"
    )
    return conflict("ClaimDeleted", message, details | {"claim": claim.metadata.name})


def _failed(claim: Claim) -> Problem:
    """Say why a claim is in Error."""
    status, meta = claim.status, claim.metadata
    assert status is not None, "it is in Error"
    detail = status.detail or "the claim is in Error"
    details = {"phase": str(status.phase), "claim": meta.name}
    if "exceeded quota" in detail:
        return Problem(429, "QuotaExceeded", detail, details=details, headers={"retry-after": "5"})
    return conflict(error_reason(status), detail, details)
