"""/tenants/{id}/workloads/{workload}/idle: whether an instance counts as used, why, what then.

claim, workload, its agent ─► explain ─► signals with their ages, the deadline, what happens then

The watched directories are asked for this answer alone, within the bounds that the agent keeps
anyway; asking changes nothing about when the instance is released.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec
from litestar import get
from litestar.params import FromPath

from boilerhouse.core import names
from boilerhouse.core.clock import parse_time, rfc3339, rfc3339_micro
from boilerhouse.core.errors import Retry
from boilerhouse.edge.api.auth import TENANTS_READ, Call, caller_of
from boilerhouse.edge.api.errors import Problem
from boilerhouse.edge.api.inputs import own_tenant
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.views import View
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Release
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.idle.explain import THEN, Explanation, explain
from boilerhouse.tenancy.idle.verdict import Ask, ChangesSeen
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec
from boilerhouse.tenancy.workloads.model import IdleAction

PATIENCE = 10.0  # seconds for the instance to answer


class SignalView(View, frozen=True):
    name: str
    counts: bool
    detail: str
    at: str | None = None
    age_seconds: float | None = None


class IdleView(View, frozen=True):
    """`state`: never, active, due, unknown, idle, or the phase of a claim that is not Active.

    `then` is what happens at the `deadline`, or next if there is none: while calls are in flight
    nobody knows when.
    """

    tenant_id: str
    workload_ref: str
    claim: str
    phase: str
    state: str
    why: str
    then: str
    timeout_seconds: int
    action: str
    in_flight: int
    signals: list[SignalView]
    deadline: str | None = None
    seconds_left: float | None = None
    watch_dirs: list[str] | None = None


@get(f"{V1}/tenants/{{tenant:str}}/workloads/{{workload:str}}/idle", opt={"scope": TENANTS_READ})
async def explain_idle(
    tenant: FromPath[str], workload: FromPath[str], services: TheServices, request: Call
) -> IdleView:
    """Explain what counts as activity of a tenant's instance, how old it is, and what follows."""
    tenant = own_tenant(caller_of(request), tenant, workload)
    held = await services.operator.holdings.find(tenant, workload)
    if not held:
        message = f"tenant {tenant!r} has no claim on workload {workload!r}"
        raise Problem(404, "ClaimNotFound", message)
    claim = held[0]
    spec = (await services.workload(workload)).spec
    idle = msgspec.convert(spec.get("idle") or {}, IdleSpec)
    status = claim.status or ClaimStatus()
    changes = None
    if status.phase == ClaimPhase.ACTIVE:
        changes = await _changes(services, status.instance_id, idle)
    # Only now: the answer took its time.
    now = services.clock.now()
    in_flight = services.activity.in_flight(claim)
    found = explain(now, idle, status.claimed_at, _noted(claim), changes, in_flight)
    if status.phase != ClaimPhase.ACTIVE:
        found = _inactive(found, claim, idle)
    return IdleView(
        tenant_id=tenant,
        workload_ref=workload,
        claim=claim.metadata.name,
        phase=status.phase,
        state=found.state,
        why=found.why,
        then=found.then,
        timeout_seconds=idle.timeout_seconds,
        action=idle.action,
        in_flight=in_flight,
        signals=[
            SignalView(
                name=signal.name,
                counts=signal.counts,
                detail=signal.detail,
                at=None if signal.at is None else rfc3339_micro(signal.at),
                age_seconds=signal.age_seconds,
            )
            for signal in found.signals
        ],
        deadline=None if found.deadline is None else rfc3339_micro(found.deadline),
        seconds_left=None
        if found.deadline is None
        else max((found.deadline - now).total_seconds(), 0.0),
        watch_dirs=list(idle.watch_dirs) or None,
    )


async def _changes(services: Services, pod: str, idle: IdleSpec) -> ChangesSeen | None:
    """Ask the instance as the operator will at the deadline; what keeps it from answering is told.

    None where its answer would not count.
    """
    if not idle.watch_dirs or not idle.timeout_seconds:
        return None
    asked_at = services.clock.now()
    if services.helper is None:
        return ChangesSeen(asked_at, trouble="there is no snapshot helper to ask")
    question = Ask(idle.watch_dirs, asked_at - timedelta(seconds=idle.timeout_seconds))
    try:
        async with asyncio.timeout(PATIENCE):
            told = await services.helper.changes(pod, idle.watch_dirs, since=question.since_ns)
    except (Retry, Refused, ApiError) as error:
        return ChangesSeen(asked_at, trouble=str(error))
    except TimeoutError:
        return ChangesSeen(asked_at, trouble=f"no answer within {PATIENCE:g} s")
    return ChangesSeen.of(asked_at, told)


def _inactive(found: Explanation, claim: Claim, idle: IdleSpec) -> Explanation:
    """Explain a claim without an instance to be judged: what becomes of it, and when."""
    status = claim.status or ClaimStatus()
    why = status.detail or f"the claim is {status.phase}: only an Active one can be idle"
    then, deadline = _next(claim, status, idle)
    return Explanation(status.phase.lower(), why, then, found.signals, deadline)


def _next(claim: Claim, status: ClaimStatus, idle: IdleSpec) -> tuple[str, datetime | None]:
    """Say what happens to a claim that is not Active, and until when that can wait."""
    release = status.release or Release()
    match status.phase:
        case ClaimPhase.RELEASING:
            return THEN[IdleAction.DESTROY if release.drop else IdleAction.HIBERNATE], None
        case ClaimPhase.RELEASE_FAILED:
            at = release.next_try_at
            when = "now" if at is None else f"at {rfc3339(at)}"
            then = f"saving is tried again {when}, and the instance goes if that works"
            if claim.metadata.deletion_timestamp is None:
                then += "; claimed before, it is the tenant's again and stays"
            return then, at
        case ClaimPhase.RELEASED:
            then, at = "the next claim brings the instance back", release.released_at
            if idle.released_ttl_seconds is None or at is None:
                return then, None
            at += timedelta(seconds=idle.released_ttl_seconds)
            return f"the claim is removed at {rfc3339(at)}; {then}, before or after", at
    return "nothing before it is Active: it is tried until it is, or until it is released", None


def _noted(claim: Claim) -> datetime | None:
    try:
        return parse_time(claim.metadata.annotations.get(names.LAST_ACTIVITY, ""))
    except ValueError:
        return None
