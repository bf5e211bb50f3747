"""/tenants/{id}/release: taking an instance away, once more, or by force.

release, retry, force ─► Releaser ─► Released and what was saved | under way | failed, and when next

A release that cannot save the tenant's files keeps the instance. Force gives them up: the answer
says what that is, and `dryRun` says so before anything is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec
from litestar import Response, post
from litestar.params import FromPath, JSONBody, QueryParameter

from boilerhouse.core.errors import Retry
from boilerhouse.edge.api.auth import ADMIN, Call, caller_of
from boilerhouse.edge.api.errors import Problem, conflict
from boilerhouse.edge.api.hangup import Connected
from boilerhouse.edge.api.inputs import DEFAULT_WAIT, SHORTEST, Name, Wait, one_workload, tenant_id
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.stored import Snapshot, shown
from boilerhouse.edge.api.views import View, failed_release
from boilerhouse.node.helper.wire import Version
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.requests.release import (
    NotClaimed,
    NotFailed,
    ReleaseAnswer,
    would_lose,
)

PATIENCE = 5.0  # seconds for what is only told along

T = TypeVar("T")

DryRun = Annotated[bool, QueryParameter(name="dryRun", description="Only say what would be lost.")]


class ReleaseRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Which workload; `workloadRef` is another name for it."""

    workload: Name | None = None
    workload_ref: Name | None = None


class SavedSnapshot(View, frozen=True):
    """What a release saved. Not `current`: another version came to be while the instance ran."""

    digest: str
    current: bool
    path: str | None = None
    version: int | None = None
    size: int | None = None
    created_at: str | None = None


class Released(View, frozen=True):
    tenant_id: str
    workload_ref: str
    status: str  # "released" or "releasing"
    phase: str
    snapshot: SavedSnapshot | None  # None: nothing was saved
    detail: str | None = None


class UsageView(View, frozen=True):
    """What lies in the instance; not `complete`: at least this much."""

    bytes: int
    entries: int
    complete: bool


class Lost(View, frozen=True):
    """What force gives up: everything in the instance that is newer than the last snapshot."""

    detail: str
    last_snapshot: Snapshot | None  # None: nothing is stored, or nobody could tell
    usage: UsageView | None  # None: the instance did not tell
    unknown: list[str] | None = None  # why something above is not known


class Forced(View, frozen=True):
    tenant_id: str
    workload_ref: str
    status: str  # "released", "releasing", or "kept" of a dry run
    phase: str
    lost: Lost
    detail: str | None = None


@post(f"{V1}/tenants/{{tenant:str}}/release", opt={"scope": ADMIN}, status_code=200)
async def release(
    tenant: FromPath[str],
    data: JSONBody[ReleaseRequest],
    services: TheServices,
    request: Call,
    wait: Wait = DEFAULT_WAIT,
) -> Response[Released]:
    """Take a tenant's instance away: 200 once it is gone, 202 if that is still under way."""
    return await _released(
        services, request, tenant, data, wait, services.operator.releaser.release
    )


@post(f"{V1}/tenants/{{tenant:str}}/release/retry", opt={"scope": ADMIN}, status_code=200)
async def retry_release(
    tenant: FromPath[str],
    data: JSONBody[ReleaseRequest],
    services: TheServices,
    request: Call,
    wait: Wait = DEFAULT_WAIT,
) -> Response[Released]:
    """Try a release that failed again now, instead of when its back-off is over."""
    going = services.operator.releaser.retry
    return await _released(services, request, tenant, data, wait, going)


@post(f"{V1}/tenants/{{tenant:str}}/release/force", opt={"scope": ADMIN}, status_code=200)
async def force_release(
    tenant: FromPath[str],
    data: JSONBody[ReleaseRequest],
    services: TheServices,
    request: Call,
    wait: Wait = DEFAULT_WAIT,
    dry_run: DryRun = False,
) -> Response[Forced]:
    """Give up what a failed release cannot save, and the instance with it; says what that is."""
    tenant = tenant_id(tenant)
    workload = one_workload(data.workload, data.workload_ref)
    releaser = services.operator.releaser
    with (
        services.held.place(caller_of(request), tenant),
        Connected(request.receive, services.streams),
    ):
        claim = await _told(releaser.failed_claim(tenant, workload), tenant, workload)
        lost = await _lost(services, claim, tenant, workload)
        if dry_run:
            phase = ClaimPhase.PENDING if claim.status is None else claim.status.phase
            body = Forced(
                tenant_id=tenant, workload_ref=workload, status="kept", phase=phase, lost=lost
            )
            return Response(body, status_code=200)
        going = releaser.force(tenant, workload, wait=_seconds(wait))
        answer = await _told(going, tenant, workload)
    gone = answer.phase == ClaimPhase.RELEASED
    forced = Forced(
        tenant_id=tenant,
        workload_ref=workload,
        status="released" if gone else "releasing",
        phase=answer.phase,
        lost=lost,
        detail=answer.detail or None,
    )
    return Response(forced, status_code=200 if gone else 202, headers=_location(gone, tenant))


async def _released(
    services: Services,
    request: Call,
    tenant: str,
    data: ReleaseRequest,
    wait: float,
    going: Callable[..., Awaitable[ReleaseAnswer]],
) -> Response[Released]:
    tenant = tenant_id(tenant)
    workload = one_workload(data.workload, data.workload_ref)
    with (
        services.held.place(caller_of(request), tenant),
        Connected(request.receive, services.streams),
    ):
        answer = await _told(going(tenant, workload, wait=_seconds(wait)), tenant, workload)
    if answer.phase == ClaimPhase.RELEASE_FAILED:
        raise _failed(answer)
    gone = answer.phase == ClaimPhase.RELEASED
    body = Released(
        tenant_id=tenant,
        workload_ref=workload,
        status="released" if gone else "releasing",
        phase=answer.phase,
        snapshot=await _saved(services, tenant, workload, answer) if answer.saved else None,
        detail="; ".join(filter(None, (answer.detail, answer.side_version, answer.left_out)))
        or None,
    )
    return Response(body, status_code=200 if gone else 202, headers=_location(gone, tenant))


async def _told(going: Awaitable[T], tenant: str, workload: str) -> T:
    """Await it; what there is not, or has not failed, is told as what it is."""
    try:
        return await going
    except NotClaimed:
        raise Problem(
            404, "ClaimNotFound", f"tenant {tenant!r} has no claim on workload {workload!r}"
        ) from None
    except NotFailed as error:
        raise conflict("NotFailed", f"{error}; release it first") from None


def _failed(answer: ReleaseAnswer) -> Problem:
    """Say that the files could not be saved, how often it was tried, and when it will be again."""
    detail = answer.detail or "the files could not be saved"
    details = failed_release(answer.phase, answer.release)
    return conflict("ReleaseFailed", f"the release failed: {detail}", details)


async def _saved(
    services: Services, tenant: str, workload: str, answer: ReleaseAnswer
) -> SavedSnapshot:
    """Show what was saved; what the store cannot tell now is left out: it is saved all the same."""
    saved = await _stored(services, tenant, workload, answer)
    if saved is None:
        return SavedSnapshot(digest=answer.saved, current=not answer.side_version)
    return SavedSnapshot(
        digest=saved.digest,
        current=not answer.side_version,
        path=saved.path,
        version=saved.seq,
        size=saved.size,
        created_at=saved.created_at,
    )


async def _stored(
    services: Services, tenant: str, workload: str, answer: ReleaseAnswer
) -> Version | None:
    """Return the version that was saved, as the store has it; None if it cannot tell."""
    if services.snapshots is None or not answer.side_version:
        current, _ = await _current(services, tenant, workload)
        return None if current is None or current.digest != answer.saved else current
    try:
        async with asyncio.timeout(PATIENCE):
            found = await services.snapshots.list(tenant=tenant, workload=workload, versions=True)
    except (Retry, Refused, ApiError, TimeoutError):
        return None
    # Of the same bytes more than once: the newest is the one.
    same = [version for version in found if version.digest == answer.saved]
    return max(same, key=lambda version: version.seq, default=None)


async def _lost(services: Services, claim: Claim, tenant: str, workload: str) -> Lost:
    """Gather what force gives up. Nothing here may keep it from being forced."""
    unknown = []
    current, why = await _current(services, tenant, workload)
    stored = None if why else "" if current is None else current.digest
    if why:
        unknown.append(f"the last snapshot: {why}")
    usage, why = await _usage(services, claim)
    if why:
        unknown.append(f"what lies in the instance: {why}")
    return Lost(
        detail=would_lose(claim, stored),
        last_snapshot=None if current is None else shown(current),
        usage=usage,
        unknown=unknown or None,
    )


async def _current(services: Services, tenant: str, workload: str) -> tuple[Version | None, str]:
    """Return the current version, or why nobody can tell."""
    if services.snapshots is None:
        return None, "there is no snapshot helper to ask"
    try:
        async with asyncio.timeout(PATIENCE):
            return await services.snapshots.current(tenant, workload), ""
    except (Retry, Refused, ApiError, TimeoutError) as error:
        return None, str(error) or f"no answer within {PATIENCE:g} s"


async def _usage(services: Services, claim: Claim) -> tuple[UsageView | None, str]:
    """Return how much lies in the instance, or why nobody can tell."""
    pod = "" if claim.status is None else claim.status.instance_id
    if services.helper is None or not pod:
        return None, "there is nobody to ask"
    try:
        async with asyncio.timeout(PATIENCE):
            found = await services.helper.usage(pod)
    except (Retry, Refused, ApiError, TimeoutError) as error:
        return None, str(error) or f"no answer within {PATIENCE:g} s"
    return UsageView(bytes=found.used, entries=found.entries, complete=found.complete), ""


def _seconds(wait: float) -> timedelta:
    return timedelta(seconds=max(wait, SHORTEST))


def _location(gone: bool, tenant: str) -> dict[str, str]:
    return {} if gone else {"location": f"{V1}/tenants/{quote(tenant, safe='')}"}


HANDLERS = [release, retry_release, force_release]
