"""/instances/{id}/post-mortem: how an instance died, also when it is long gone."""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.params import FromPath

from boilerhouse.edge.api.auth import INSTANCES_READ, Call, caller_of
from boilerhouse.edge.api.errors import Problem
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import TheServices
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.kube.status import BadRequest, NotFound
from boilerhouse.tenancy.postmortems.model import (
    COMPONENT,
    LOG,
    POST_MORTEM,
    REPORT,
    Report,
    secret_name,
)


class PostMortem(Report, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The report, and the end of what the program wrote."""

    log: str


@get(f"{V1}/instances/{{name:str}}/post-mortem", opt={"scope": INSTANCES_READ})
async def post_mortem(name: FromPath[str], services: TheServices, request: Call) -> PostMortem:
    """Return how the instance last died, and the end of its log; 404 if it never did."""
    missing = Problem(404, "PostMortemNotFound", f"there is no post-mortem of instance {name!r}")
    try:
        secret = await services.client.get(SECRETS, secret_name(name))
    except (NotFound, BadRequest):
        raise missing from None
    if secret.metadata.labels.get(COMPONENT) != POST_MORTEM or REPORT not in secret.data:
        raise missing
    report = msgspec.json.decode(secret.data[REPORT], type=Report)
    if not caller_of(request).sees(report.tenant_id, report.workload_ref):
        raise missing
    text = secret.data.get(LOG, b"").decode(errors="replace")
    return PostMortem(log=text, **msgspec.structs.asdict(report))
