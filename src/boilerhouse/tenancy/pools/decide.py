"""What to do next about a pool. Pure and total: Seen ─► Plan.

Pods ─► unfit? delete      (another template or workload, ended, stuck)
     ─► too many? delete   (unready first, then the oldest)
     ─► label as what they are
     ─► too few? create    (at most max_fill starting at once; later if the last ones failed)
     ─► nothing left to do? write the counters and the phase

Only Pods without a claim are ever seen here. A Pod that a claim takes loses the pool's label in the
same write, so taking one is what wakes this up, and deleting one that was just taken fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs

from boilerhouse.core.condition import ConditionStatus, with_condition
from boilerhouse.core.names import MANAGED, READY, WARMING, warm_pod_name
from boilerhouse.core.names import POOL as POOL_LABEL
from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.tenancy.instances.seen import Blueprint, InstanceSeen
from boilerhouse.tenancy.pools.machine import POOL, PoolPhase
from boilerhouse.tenancy.pools.model import PoolStatus
from boilerhouse.tenancy.pools.seen import (
    CreatePod,
    DeletePod,
    LabelPod,
    Plan,
    PoolSeen,
    Seen,
    Step,
)
from boilerhouse.tenancy.workloads.machine import WorkloadPhase

STUCK_AFTER = timedelta(minutes=3)  # not ready for so long, with nothing that waiting could cure
IMAGE_PATIENCE = timedelta(minutes=1)  # kubelet has tried three times by then
MOST_STEPS = 64  # in one pass
NOW = timedelta(0)

FILLED = "Filled"
SAID = 1024  # characters of a detail that a condition repeats
LOOK_SOON = timedelta(seconds=2)  # at a Pod that runs and is not ready: its probe may say why then
LOOK_AGAIN = timedelta(seconds=5)  # at one whose probe fails


def decide(seen: Seen) -> Plan:
    """Return the next steps, write or wait for one pool."""
    pool = seen.pool
    alive = tuple(pod for pod in seen.pods if not pod.terminating)
    if pool is None or pool.deleting:
        return _drain(pool, alive)
    if not pool.held:
        return Do((AddFinalizer(),))
    kept, unfit = _sorted_out(seen, pool, alive)
    surplus = _surplus(pool, kept)
    steps: list[Step] = [*unfit, *(DeletePod(pod, "the pool is full") for pod in surplus)]
    kept = [pod for pod in kept if pod not in surplus]
    steps += _labels(kept)
    # What failed is replaced by the next pass, which knows how often it did.
    fill = _Fill() if any(gone.failed for gone in unfit) else _fill(seen, pool, kept)
    steps += (CreatePod(name) for name in fill.names)
    if steps:
        return Do(tuple(steps[:MOST_STEPS]))
    status = _status(seen, pool, kept)
    if status != pool.status:
        return WriteStatus(status, str(status.phase))
    as_it_is = "pool satisfied" if status.phase == PoolPhase.HEALTHY else "instances are starting"
    return Wait(status.detail or as_it_is, _next_look(kept, fill))


def _drain(pool: PoolSeen | None, alive: Sequence[InstanceSeen]) -> Plan:
    if alive:
        steps = [DeletePod(pod, "its pool was deleted") for pod in alive]
        return Do(tuple(steps[:MOST_STEPS]))
    if pool is not None and pool.held:
        return Do((RemoveFinalizer(),))
    return Wait("the pool is gone")


def _sorted_out(
    seen: Seen, pool: PoolSeen, alive: Sequence[InstanceSeen]
) -> tuple[list[InstanceSeen], list[DeletePod]]:
    """Tell the Pods that may stay from those that must go, and say why."""
    kept: list[InstanceSeen] = []
    unfit: list[DeletePod] = []
    for pod in alive:
        why = _outdated(pool, seen.workload, pod)
        if why:
            unfit.append(DeletePod(pod, why))
        elif pod.ended:
            unfit.append(DeletePod(pod, pod.ended, failed=True))
        elif _stuck_in(pod) <= NOW:
            why = pod.trouble or f"not ready for {STUCK_AFTER.total_seconds():.0f} s"
            unfit.append(DeletePod(pod, why, failed=True))
        else:
            kept.append(pod)
    return kept, unfit


def _outdated(pool: PoolSeen, workload: Blueprint | None, pod: InstanceSeen) -> str:
    if workload is None or pod.workload != pool.workload:
        return "its workload is gone"
    # While a new spec is being checked the old Pods wait with it: it may be taken back.
    if workload.ready and pod.template != workload.template:
        return "it was made from an older blueprint"
    return ""


def _stuck_in(pod: InstanceSeen) -> timedelta:
    """Return how long to wait for a Pod to get ready; zero or less: long enough."""
    if pod.usable or pod.image_failure or pod.unschedulable:
        return STUCK_AFTER  # ready, or a new Pod would fare no better
    return STUCK_AFTER - pod.waited


def _surplus(pool: PoolSeen, kept: Sequence[InstanceSeen]) -> list[InstanceSeen]:
    ordered = sorted(kept, key=lambda pod: (pod.usable, pod.created_at, pod.name))
    return ordered[: max(0, len(kept) - pool.size)]


def _labels(kept: Sequence[InstanceSeen]) -> Iterator[LabelPod]:
    for pod in kept:
        status = READY if pod.usable else WARMING
        if pod.pool_status != status:
            yield LabelPod(pod, status)


@dataclass(frozen=True, slots=True)
class _Fill:
    """The Pods to make now, or how long to wait before making some."""

    names: tuple[str, ...] = ()
    again_in: timedelta | None = None


def _fill(seen: Seen, pool: PoolSeen, kept: Sequence[InstanceSeen]) -> _Fill:
    if seen.workload is None or not seen.workload.ready:
        return _Fill()
    warming = sum(not pod.usable for pod in kept)
    count = min(pool.size - len(kept), pool.max_fill - warming)
    if count <= 0:
        return _Fill()
    later = max((s.due_in for s in (seen.refusal, seen.failing) if s is not None), default=NOW)
    if later > NOW:
        return _Fill(again_in=later)
    rng = (pool.uid, str(seen.random_bits))
    return _Fill(tuple(warm_pod_name(pool.workload, *rng, str(n)) for n in range(count)))


def _status(seen: Seen, pool: PoolSeen, kept: Sequence[InstanceSeen]) -> PoolStatus:
    can_be_claimed = seen.workload is not None and seen.workload.ready
    ready = sum(pod.usable for pod in kept) if can_be_claimed else 0
    warming = sum(not pod.usable for pod in kept)
    error = _error(seen, pool, kept)
    if error:
        target = PoolPhase.ERROR
    elif ready >= pool.size and pool.status.phase != PoolPhase.ERROR:
        target = PoolPhase.HEALTHY
    else:
        target = PoolPhase.DEGRADED
    filled = target == PoolPhase.HEALTHY
    detail = error or ("" if filled else _why_not_full(seen, pool, kept, pool.size - ready))
    return structs.replace(
        pool.status,
        phase=POOL.move(pool.status.phase, target),
        ready=ready,
        warming=warming,
        selector=f"{MANAGED}=true,{POOL_LABEL}={pool.name}",
        detail=detail,
        observed_generation=pool.generation,
        conditions=with_condition(
            pool.status.conditions,
            FILLED,
            ConditionStatus.TRUE if filled else ConditionStatus.FALSE,
            str(target),
            detail[:SAID],
            generation=pool.generation,
            now=seen.now,
        ),
    )


def _error(seen: Seen, pool: PoolSeen, kept: Sequence[InstanceSeen]) -> str:
    workload = seen.workload
    if workload is None:
        return f"workload {pool.workload} does not exist"
    if workload.phase == WorkloadPhase.ERROR:
        return f"workload {pool.workload} is in Error: {workload.detail}"
    for pod in kept:
        if pod.image_failure and pod.waited >= IMAGE_PATIENCE:
            return f"the image does not arrive: {pod.image_failure}"
    return ""


def _why_not_full(seen: Seen, pool: PoolSeen, kept: Sequence[InstanceSeen], missing: int) -> str:
    """Say what keeps the pool from being full, if it is more than time."""
    if seen.workload is not None and not seen.workload.ready:
        deleting = seen.workload.deleting
        return f"workload {seen.workload.name} is being {'deleted' if deleting else 'prepared'}"
    for failure in (seen.refusal, seen.failing):
        if failure is not None:
            return failure.why
    waiting = [_waits_for(pod) for pod in kept if not pod.usable]
    reasons = Counter(waiting)
    alike = len(reasons) == 1
    del reasons[""]
    # No more of them are made while these wait, so what these wait for keeps all from coming.
    return "; ".join(
        f"{count} of {pool.size} {'waits' if count == 1 else 'wait'}: {why}"
        for why, found in sorted(reasons.items())
        for count in [missing if alike else found]
    )


def _waits_for(pod: InstanceSeen) -> str:
    """Say what a warm Pod waits for, in the same words for all that wait for the same."""
    if pod.unschedulable:
        return scheduler_reason(pod.unschedulable)
    if pod.unready and not pod.image_failure:
        return f"not ready: {pod.unready}"
    return pod.image_failure or pod.trouble


def scheduler_reason(message: str) -> str:
    """Return what lacks, of `0/3 nodes are available: 2 Insufficient cpu, 1 …. preemption: …`."""
    _, found, reasons = message.partition(" nodes are available: ")
    if not found:
        return message
    listed = reasons.partition(". ")[0].rstrip(".").split(", ")
    return ", ".join(reason.lstrip("0123456789 ").lower() for reason in listed)


def _next_look(kept: Sequence[InstanceSeen], fill: _Fill) -> timedelta | None:
    """Return when time alone will change the decision."""
    looks = [] if fill.again_in is None else [fill.again_in]
    for pod in kept:
        if pod.usable:
            continue
        if pod.image_failure:
            looks.append(IMAGE_PATIENCE - pod.waited)
        elif not pod.unschedulable:
            looks.append(_stuck_in(pod))
            if pod.running and not pod.trouble:
                looks.append(LOOK_AGAIN if pod.unready else LOOK_SOON)
    return min((look for look in looks if look > NOW), default=None)
