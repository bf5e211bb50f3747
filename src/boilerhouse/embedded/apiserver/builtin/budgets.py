"""ResourceQuotas, LimitRanges and PodDisruptionBudgets: what bounds others."""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin.rules import (
    count_or_percent,
    label_selector,
    resource_map,
    unchanged,
)
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_COUNTED = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
     "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)  # fmt: skip
_COMPUTE = frozenset(
    {"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
     "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"}
)  # fmt: skip
_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def validate_quota(body: Body, old: Body | None) -> list[Cause]:
    hard = body["spec"].get("hard", {})
    causes = resource_map("spec.hard", hard)
    for name, value in hard.items():
        field = f"spec.hard[{name}]"
        if not _is_quota_resource(name):
            causes.append(invalid_value(field, name, "must be a standard resource for quota"))
        if (name in _COUNTED or name.startswith("count/")) and parse(value).nanos % 10**9:
            causes.append(invalid_value(field, value, "must be an integer"))
    if old is not None:
        before, now = old["spec"].get("scopes", []), body["spec"].get("scopes", [])
        causes += unchanged("spec.scopes", sorted(now), sorted(before))
    return causes


def _is_quota_resource(name: str) -> bool:
    if name in _COUNTED or name in _COMPUTE or "/" in name:
        return True
    return ".storageclass.storage.k8s.io" in name or name.startswith("hugepages-")


def default_limit_range(body: Body) -> None:
    """A container's default limit is its maximum, its default request its default limit."""
    for item in body["spec"].get("limits", ()):
        if item["type"] != "Container":
            continue
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


# (what must not be greater, what it is compared with, which of them is at fault)
_ORDERED = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)


def validate_limit_range(body: Body, _old: Body | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate(body["spec"].get("limits", ())):
        field = f"spec.limits[{index}]"
        kind = item["type"]
        if kind in seen:
            causes.append(duplicate(f"{field}.type", kind))
        seen.add(kind)
        if kind not in ("Pod", "Container", "PersistentVolumeClaim") and "/" not in kind:
            words = "must be a standard limit type or fully qualified"
            causes.append(invalid_value(f"{field}.type", kind, words))
        if kind == "Pod":
            for name in ("default", "defaultRequest"):
                if item.get(name):
                    words = "may not be specified when `type` is 'Pod'"
                    causes.append(forbidden_field(f"{field}.{name}", words))
        if kind == "PersistentVolumeClaim" and not (
            "storage" in item.get("min", {}) or "storage" in item.get("max", {})
        ):
            words = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(required(f"{field}.limits", words))
        causes += _names(field, item) + _bounds(field, item)
    return causes


def _names(field: str, item: Body) -> list[Cause]:
    words = "must be a standard resource type or fully qualified"
    return [
        invalid_value(f"{field}.{part}[{name}]", name, words)
        for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        for name in item.get(part, {})
        if name not in _LIMITED and "/" not in name and not name.startswith("hugepages-")
    ]


def _bounds(field: str, item: Body) -> list[Cause]:
    causes: list[Cause] = []
    for low, high, fault in _ORDERED:
        lows, highs = item.get(low, {}), item.get(high, {})
        for name in lows.keys() & highs.keys():
            if parse(lows[name]) > parse(highs[name]):
                words = f"{low} value {lows[name]} is greater than {high} value {highs[name]}"
                causes.append(invalid_value(f"{field}.{fault}[{name}]", item[fault][name], words))
    for name, ratio in item.get("maxLimitRequestRatio", {}).items():
        if parse(ratio).nanos < 10**9:
            words = f"ratio {ratio} is less than 1"
            causes.append(invalid_value(f"{field}.maxLimitRequestRatio[{name}]", ratio, words))
    return causes


def validate_disruption_budget(body: Body, _old: Body | None) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        words = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid_value("spec", spec, words))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            causes += count_or_percent(f"spec.{name}", spec[name])
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "AlwaysAllow", "IfHealthyBudget"):
        field = "spec.unhealthyPodEvictionPolicy"
        causes.append(unsupported_value(field, policy, ["AlwaysAllow", "IfHealthyBudget"]))
    return causes + label_selector("spec.selector", spec.get("selector"))
