"""What an object uses of a quota: counts, and the resources that Pods and claims ask for.

Pure arithmetic on bodies, shared by quotas (how much is used) and limit ranges (how much may one
Pod ask for).
"""

from __future__ import annotations

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.fields.podspec import Amounts, amounts, containers_of, pod_total
from boilerhouse.embedded.fields.quantity import ZERO, parse

ONE = parse("1")

_COUNTED = frozenset({
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
    "secrets", "services",
})  # fmt: skip
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def usage(kind: Kind, body: Body) -> Amounts:
    """Return everything the object counts for, by the names that quotas use."""
    used: Amounts = {f"count/{kind.resource}": ONE}
    if kind.resource == "pods":
        if body.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used |= {"pods": ONE, **_pod_usage(body)}
        return used
    if kind.resource in _COUNTED:
        used[kind.resource] = ONE
    if kind.resource == "persistentvolumeclaims":
        used |= _claim_usage(body)
    elif kind.resource == "services":
        used |= _service_usage(body)
    return used


def best_effort(body: Body) -> bool:
    """Tell whether no container of a Pod asks for or limits cpu or memory."""
    return not any(
        name in ("cpu", "memory") and amount
        for container in containers_of(body.get("spec", {}))
        for which in ("requests", "limits")
        for name, amount in amounts(container, which).items()
    )


def _pod_usage(body: Body) -> Amounts:
    used: Amounts = {}
    spec = body.get("spec", {})
    for name, amount in pod_total(spec, "requests").items():
        used[f"requests.{name}"] = amount
        if name in _COMPUTE:
            used[name] = amount
    for name, amount in pod_total(spec, "limits").items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _claim_usage(body: Body) -> Amounts:
    spec = body.get("spec", {})
    storage = parse(str(spec.get("resources", {}).get("requests", {}).get("storage", "0")))
    used = {"requests.storage": storage}
    storage_class = spec.get("storageClassName")
    if storage_class:
        prefix = f"{storage_class}.storageclass.storage.k8s.io"
        used |= {f"{prefix}/requests.storage": storage, f"{prefix}/persistentvolumeclaims": ONE}
    return used


def _service_usage(body: Body) -> Amounts:
    spec = body.get("spec", {})
    ports = parse(str(len(spec.get("ports", ()))))
    if spec.get("type") == "NodePort":
        return {"services.nodeports": ports}
    if spec.get("type") == "LoadBalancer":
        allocated = ports if spec.get("allocateLoadBalancerNodePorts", True) else ZERO
        return {"services.loadbalancers": ONE, "services.nodeports": allocated}
    return {}
