"""/stats, /health, /why and /metrics: how the server itself is doing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from litestar import Response, get
from litestar.params import FromPath
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from boilerhouse.edge.api.auth import ADMIN, PUBLIC, Call
from boilerhouse.edge.api.errors import Problem, bad_request, not_found
from boilerhouse.edge.api.informers import listed
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import TheServices
from boilerhouse.platform.kube.resources import Key

# What people call a kind, and what its controller is called.
CONTROLLERS = {
    **dict.fromkeys(("claim", "claims", "boilerhouseclaim", "bhc"), "claims"),
    **dict.fromkeys(("pool", "pools", "boilerhousepool", "bhp"), "pools"),
    **dict.fromkeys(("trigger", "triggers", "boilerhousetrigger", "bht"), "triggers"),
    **dict.fromkeys(("workload", "workloads", "boilerhouseworkload", "bhw"), "workloads"),
}


class Count(msgspec.Struct, rename="camel"):
    total: int
    by_phase: dict[str, int]


class PoolCount(msgspec.Struct, rename="camel"):
    total: int
    by_phase: dict[str, int]
    ready: int
    warming: int


class Stats(msgspec.Struct, rename="camel"):
    instances: Count
    claims: Count
    workloads: Count
    pools: PoolCount


class Health(msgspec.Struct, rename="camel", omit_defaults=True):
    """`status` is ok, or degraded: then `warnings` say what is wrong while requests are served.

    `crashLooping` counts the instances whose program ends again and again, if there are any.
    """

    status: str
    crash_looping: int = 0
    warnings: list[str] = []


@get(f"{V1}/stats", opt={"scope": ADMIN})
async def stats(services: TheServices, request: Call) -> Stats:
    """Count what there is, by phase."""
    informers = services.informers
    pools = [pool.status for pool in listed(informers.pools)]
    phases = _count("Degraded" if pool is None else pool.phase for pool in pools)
    return Stats(
        instances=_count(pod.status.phase or "Pending" for pod in listed(informers.pods)),
        claims=_count(
            "Pending" if claim.status is None else claim.status.phase
            for claim in listed(informers.claims)
        ),
        workloads=_count(
            one.status.get("phase", "Creating") for one in listed(informers.workloads)
        ),
        pools=PoolCount(
            phases.total,
            phases.by_phase,
            ready=sum(pool.ready for pool in pools if pool is not None),
            warming=sum(pool.warming for pool in pools if pool is not None),
        ),
    )


def _count(phases: Iterable[str]) -> Count:
    found = Counter(str(phase) for phase in phases)
    return Count(found.total(), dict(sorted(found.items())))


@get(f"{V1}/health", opt={"scope": PUBLIC})
async def health(services: TheServices) -> Health:
    """Say whether requests can be served: 200 and ok (or degraded, and by what), or 503."""
    complaints = await services.complaints()
    if complaints:
        raise Problem(503, "Unavailable", "; ".join(complaints), details={"complaints": complaints})
    view, pods = services.operator.instances.view, services.informers.pods.cache
    looping = sum(view(pods[key]).backing_off for key in pods)
    warnings = services.warnings()
    return Health("degraded" if warnings else "ok", looping, warnings)


@get(f"{V1}/why/{{kind:str}}/{{name:str}}", opt={"scope": ADMIN}, media_type="application/json")
async def why(kind: FromPath[str], name: FromPath[str], services: TheServices) -> Response[bytes]:
    """Return the last passes over an object: what was seen, what was decided, how it ended."""
    controller = CONTROLLERS.get(kind.lower())
    if controller is None:
        raise bad_request(f"kind: {kind!r} is none of claim, pool, trigger, workload")
    key = Key(services.client.namespace, name)
    if not services.operator.recorder.passes(controller, key):
        noun = controller.removesuffix("s")
        if name not in {
            one.metadata.name for one in listed(getattr(services.informers, controller))
        }:
            raise not_found(noun.capitalize(), name)
        message = f"{noun} {name!r} has not been looked at since this process started"
        raise Problem(404, "NothingRecorded", message)
    body = services.operator.recorder.bundle(controller, key)
    return Response(body, media_type="application/json")


@get("/metrics", opt={"scope": ADMIN}, media_type="text/plain")
async def metrics() -> Response[bytes]:
    """Return the numbers of this process for Prometheus."""
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
