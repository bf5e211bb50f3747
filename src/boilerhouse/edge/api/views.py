"""How things look to a caller: objects of the cluster as the bodies that S1 writes down. Pure.

Pod, Claim, Dynamic ─► Instance, Tenant, Resource, … ─► JSON

What is not known is left out. More fields than S1's are allowed, other names for them are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Endpoint, Release
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.instances.pods import crashes, ports_of, restarts_of
from boilerhouse.tenancy.instances.pods import instance as seen_of


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A body, or a part of one: camelCase, what is unknown is absent."""


class EndpointView(View, frozen=True):
    host: str
    port: int | None = None  # absent if the workload exposes none


class PortView(View, frozen=True):
    """Where an exposed port is reached: usually under its own number."""

    port: int  # as the workload exposes it
    host: str
    host_port: int


class Instance(View, frozen=True):
    name: str
    phase: str  # the Pod's
    labels: dict[str, str]
    created_at: str
    tenant_id: str | None = None
    workload_ref: str | None = None
    ip: str | None = None
    last_activity: str | None = None
    claimed_at: str | None = None
    claim: str | None = None
    source: str | None = None
    node: str | None = None
    ready: bool | None = None
    terminating: bool | None = None
    restarts: int | None = None
    endpoints: list[PortView] | None = None
    detail: str | None = None


class TenantClaim(View, frozen=True):
    name: str
    tenant_id: str
    workload_ref: str
    phase: str
    instance_id: str | None = None
    endpoint: EndpointView | None = None
    endpoints: list[PortView] | None = None
    source: str | None = None
    claimed_at: str | None = None
    detail: str | None = None
    last_activity: str | None = None
    created_at: str | None = None
    conditions: list[Any] | None = None


class Tenant(View, frozen=True):
    tenant_id: str
    claims: list[TenantClaim]  # there even if empty


class Claimed(View, frozen=True):
    """The answer to a claim. `timings`: milliseconds by stage, which sum to their `total`."""

    tenant_id: str
    phase: str
    workload_ref: str
    claim: str
    timings: dict[str, float]
    instance_id: str | None = None
    endpoint: EndpointView | None = None
    endpoints: list[PortView] | None = None
    source: str | None = None
    claimed_at: str | None = None
    detail: str | None = None


class Resource(View, frozen=True):
    """An object of one of our kinds, without what only Kubernetes cares for."""

    name: str
    spec: dict[str, Any]
    status: dict[str, Any]
    created_at: str
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deleting: bool = False


def instance(pod: Pod, claim: Claim | None) -> Instance:
    """Show an instance; what a Claim knows of it is told along with it."""
    meta, status = pod.metadata, pod.status
    tenant = meta.annotations.get(names.TENANT_ID) or meta.labels.get(names.TENANT)
    activity = None if claim is None else claim.metadata.annotations.get(names.LAST_ACTIVITY)
    claimed = None if claim is None or claim.status is None else claim.status.claimed_at
    return Instance(
        name=meta.name,
        phase=status.phase or "Pending",
        labels=meta.labels,
        created_at=_time(meta.creation_timestamp) or "",
        tenant_id=tenant,
        workload_ref=meta.labels.get(names.WORKLOAD),
        ip=status.pod_ip or None,
        last_activity=activity,
        claimed_at=_time(claimed),
        claim=meta.annotations.get(names.CLAIM, "").partition("/")[0] or None,
        source=meta.annotations.get(names.SOURCE),
        node=pod.spec.node_name or None,
        ready=pod.ready,
        terminating=True if meta.deletion_timestamp is not None else None,
        restarts=restarts_of(pod),
        endpoints=_endpoints(pod),
        detail=_what_is_wrong(pod, claim) or None,
    )


def _what_is_wrong(pod: Pod, claim: Claim | None) -> str:
    """Say what keeps an instance from being used, and what it has gone through."""
    status = pod.status
    ended = ": ".join(part for part in (status.reason, status.message) if part)
    if ended:
        return ended
    crashed = crashes(pod)
    if crashed:
        return f"{crashed}; see `boilerhouse logs {pod.metadata.name} --previous`"
    if pod.metadata.deletion_timestamp is not None:
        return ""
    if pod.ready:
        return "; ".join(moved_port(port, at) for port, at in ports_of(pod) if port != at)
    # The claim knows kubelet's words about the probe.
    told = "" if claim is None or claim.status is None else claim.status.detail
    seen = seen_of(pod)
    return told or seen.image_failure or seen.unschedulable or seen.trouble or seen.unready


def moved_port(port: int, reached_at: int) -> str:
    """Say why a port is reached under another number."""
    taken = "is taken on this machine by another program"
    if port < 1024:
        taken = "is taken on this machine, or only root may listen on it"
    return f"port {port} {taken}; reached at {reached_at}"


def _endpoints(pod: Pod | None) -> list[PortView] | None:
    if pod is None or not pod.status.pod_ip:
        return None
    host = pod.status.pod_ip
    return [PortView(port=port, host=host, host_port=at) for port, at in ports_of(pod)] or None


def tenant_claim(claim: Claim, pod: Pod | None) -> TenantClaim:
    meta, status = claim.metadata, claim.status or ClaimStatus()
    active = status.phase == ClaimPhase.ACTIVE
    return TenantClaim(
        name=meta.name,
        tenant_id=claim.spec.tenant_id,
        workload_ref=claim.spec.workload_ref,
        phase=status.phase,
        instance_id=status.instance_id or None,
        endpoint=_endpoint(status.endpoint),
        endpoints=_endpoints(pod) if active else None,
        source=status.source,
        claimed_at=_time(status.claimed_at),
        detail=status.detail or None,
        last_activity=meta.annotations.get(names.LAST_ACTIVITY),
        created_at=_time(meta.creation_timestamp),
        conditions=msgspec.to_builtins(status.conditions) or None,
    )


def tenants(claims: Iterable[Claim], pod_of: Callable[[Claim], Pod | None]) -> list[Tenant]:
    """Gather claims by tenant, by name."""
    found: dict[str, list[TenantClaim]] = {}
    for claim in claims:
        shown = tenant_claim(claim, pod_of(claim))
        found.setdefault(claim.spec.tenant_id, []).append(shown)
    return [
        Tenant(tenant_id=tenant, claims=sorted(held, key=lambda one: one.workload_ref))
        for tenant, held in sorted(found.items())
    ]


def claimed(
    claim: Claim, pod: Pod | None, *, source: str | None, stages: Mapping[str, float], total: float
) -> Claimed:
    """Show how a claim ended. The endpoint is that of an Active claim only.

    An instance that runs and has crashed before is told of: it may well do so again.
    """
    status = claim.status or ClaimStatus()
    active = status.phase == ClaimPhase.ACTIVE
    return Claimed(
        tenant_id=claim.spec.tenant_id,
        phase=status.phase,
        workload_ref=claim.spec.workload_ref,
        claim=claim.metadata.name,
        timings=timings(stages, total),
        instance_id=status.instance_id or None,
        endpoint=_endpoint(status.endpoint) if active else None,
        endpoints=_endpoints(pod) if active else None,
        source=source if active else None,
        claimed_at=_time(status.claimed_at),
        detail=status.detail or (_what_is_wrong(pod, claim) if pod and active else "") or None,
    )


def timings(stages: Mapping[str, float], total: float) -> dict[str, float]:
    """Turn seconds by stage into milliseconds that sum to their `total`, to the microsecond.

    What no stage accounts for is the stage `api`.
    """
    shown, spent = {}, 0
    for name, seconds in stages.items():
        micros = round(max(seconds, 0.0) * 1e6)
        shown[name] = micros / 1000
        spent += micros
    whole = max(round(total * 1e6), spent)
    shown["api"], shown["total"] = (whole - spent) / 1000, whole / 1000
    return shown


def resource(body: Mapping[str, Any]) -> Resource:
    """Show an object as it came from the API."""
    meta = body["metadata"]
    return Resource(
        name=meta["name"],
        spec=body.get("spec", {}),
        status=body.get("status", {}),
        created_at=meta.get("creationTimestamp", ""),
        generation=meta.get("generation", 0),
        resource_version=meta.get("resourceVersion", ""),
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        deleting="deletionTimestamp" in meta,
    )


def _endpoint(endpoint: Endpoint | None) -> EndpointView | None:
    if endpoint is None or not endpoint.host:
        return None
    return EndpointView(host=endpoint.host, port=endpoint.port or None)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def failed_release(phase: ClaimPhase, release: Release | None) -> dict[str, object]:
    """Return what an error tells of a release that failed: tries, the last error, the next try."""
    details: dict[str, object] = {"phase": str(phase)}
    if release is not None:
        details["attempts"] = release.attempts
        details["lastError"] = release.last_error
        if release.next_try_at is not None:
            details["nextTryAt"] = rfc3339(release.next_try_at)
    return details
