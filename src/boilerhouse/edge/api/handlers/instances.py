"""/instances: the Pods that tenants run in, as S1 lists them, and their end."""

from __future__ import annotations

import contextlib

import msgspec
from litestar import get, post
from litestar.params import FromPath

from boilerhouse.core import names
from boilerhouse.core.errors import Retry
from boilerhouse.edge.api import views
from boilerhouse.edge.api.auth import ADMIN, INSTANCES_READ, Call, Caller, caller_of
from boilerhouse.edge.api.errors import not_found
from boilerhouse.edge.api.informers import listed
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.kube.status import ApiError, Conflict, NotFound


class Destroyed(msgspec.Struct):
    instance: str
    status: str = "destroyed"


def tenant_of(pod: Pod) -> str:
    """Return whose an instance is; nothing while nobody has claimed it."""
    return pod.metadata.annotations.get(names.TENANT_ID, "")


def visible(caller: Caller, pod: Pod) -> bool:
    """Whether an instance exists for this caller."""
    return caller.sees(tenant_of(pod) or None, pod.metadata.labels.get(names.WORKLOAD))


async def found(services: Services, request: Call, name: str) -> Pod:
    """Return an instance that the caller may know of."""
    pod = await services.instance(name)
    if not visible(caller_of(request), pod):
        raise not_found("Instance", name)
    return pod


@get(f"{V1}/instances", opt={"scope": INSTANCES_READ})
async def list_instances(services: TheServices, request: Call) -> list[views.Instance]:
    """Return every instance, by name."""
    caller = caller_of(request)
    return [
        views.instance(pod, services.claim_of(pod))
        for pod in listed(services.informers.pods)
        if visible(caller, pod)
    ]


@get(f"{V1}/instances/{{name:str}}", opt={"scope": INSTANCES_READ})
async def get_instance(name: FromPath[str], services: TheServices, request: Call) -> views.Instance:
    """Return one instance."""
    pod = await found(services, request, name)
    return views.instance(pod, services.claim_of(pod))


@post(f"{V1}/instances/{{name:str}}/destroy", opt={"scope": ADMIN}, status_code=200)
async def destroy_instance(name: FromPath[str], services: TheServices, request: Call) -> Destroyed:
    """Delete the Pod at once and save nothing (S1); the claim moves on by itself."""
    pod = await found(services, request, name)
    try:
        left = await services.client.delete(PODS, name, uid=pod.metadata.uid, grace=0)
    except (NotFound, Conflict):  # it went, or another of its name came, while we looked
        raise not_found("Instance", name) from None
    if left is not None:
        services.informers.pods.observe(left)
    else:
        services.informers.pods.forget(pod)
    await _let_claim_know(services, pod)
    return Destroyed(name)


async def _let_claim_know(services: Services, pod: Pod) -> None:
    """Look at the claim now, as the operator will: the next call must not find it Active still."""
    claim = services.claim_of(pod)
    if claim is None:
        return
    key = Key(claim.metadata.namespace, claim.metadata.name)
    # The instance is destroyed, whatever comes of the claim: what fails is tried again by itself.
    with contextlib.suppress(ApiError, Retry):
        await services.operator.claims.run_inline(key)
