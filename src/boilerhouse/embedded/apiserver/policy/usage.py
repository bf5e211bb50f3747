"""What an object uses of a quota: counts, and the resources that Pods and claims ask for.

Pure arithmetic on bodies, shared by quotas (how much is used) and limit ranges (how much may one
Pod ask for).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.fields.quantity import ZERO, Quantity, parse

Amounts = dict[str, Quantity]
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


def pod_total(body: Body, which: str) -> Amounts:
    """Add up `requests` or `limits` of a Pod as the scheduler does: containers and sidecars run
    together, other init containers one after another, the larger of the two counts."""
    spec = body.get("spec", {})
    running = _sum(_amounts(c, which) for c in spec.get("containers", ()))
    starting: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers", ()):
        amounts = _amounts(container, which)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, amounts])
            amounts = sidecars
        else:
            amounts = _sum([sidecars, amounts])
        starting = _larger(starting, amounts)
    total = _larger(_sum([running, sidecars]), starting)
    return _sum([total, quantities(spec.get("overhead", {}))])


def containers(body: Body) -> list[Body]:
    """Return every container of a Pod, init containers included."""
    spec = body.get("spec", {})
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def quantities(values: Mapping[str, Any]) -> Amounts:
    return {name: parse(str(value)) for name, value in values.items()}


def best_effort(body: Body) -> bool:
    """Tell whether no container of a Pod asks for or limits cpu or memory."""
    return not any(
        name in ("cpu", "memory") and amount
        for container in containers(body)
        for which in ("requests", "limits")
        for name, amount in _amounts(container, which).items()
    )


def _pod_usage(body: Body) -> Amounts:
    used: Amounts = {}
    for name, amount in pod_total(body, "requests").items():
        used[f"requests.{name}"] = amount
        if name in _COMPUTE:
            used[name] = amount
    for name, amount in pod_total(body, "limits").items():
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


def _amounts(container: Body, which: str) -> Amounts:
    return quantities(container.get("resources", {}).get(which, {}))


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, ZERO), other.get(name, ZERO)) for name in one | other}
