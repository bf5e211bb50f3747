"""LimitRanges: defaults for containers that state none, and bounds for what anyone states.

create Pod ──► defaults (before validation) ──► bounds (after it) ──► 403 with every breach
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.podspec import (
    Amounts,
    amounts,
    containers_of,
    pod_total,
    quantities,
)
from boilerhouse.embedded.fields.quantity import Quantity, parse

ANNOTATION = "kubernetes.io/limit-ranger"


def apply_defaults(pod: Body, ranges: list[Body]) -> None:
    """Fill in requests and limits from the limit ranges of the namespace, and say so."""
    said: list[str] = []
    for entry in _entries(ranges, "Container"):
        limits, requests = entry.get("default", {}), entry.get("defaultRequest", {})
        for title, group in (("container", "containers"), ("init container", "initContainers")):
            for container in pod.get("spec", {}).get(group, ()):
                said += _fill(container, title, requests, limits)
    if said:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(said)


def breaches(resource: str, body: Body, ranges: list[Body]) -> list[str]:
    """Return what breaks a limit range, in the real server's words."""
    found: list[str] = []
    if resource == "pods":
        spec = body.get("spec", {})
        for entry in _entries(ranges, "Container"):
            for one in containers_of(spec):
                found += _check(entry, amounts(one, "requests"), amounts(one, "limits"))
        for entry in _entries(ranges, "Pod"):
            found += _check(entry, pod_total(spec, "requests"), pod_total(spec, "limits"))
    elif resource == "persistentvolumeclaims":
        stated = body.get("spec", {}).get("resources", {}).get("requests", {})
        for entry in _entries(ranges, "PersistentVolumeClaim"):
            found += _check_claim(entry, quantities(stated))
    return found


def _entries(ranges: list[Body], wanted: str) -> Iterator[Body]:
    for limit_range in ranges:
        for entry in limit_range.get("spec", {}).get("limits", ()):
            if entry.get("type") == wanted:
                yield entry


def _fill(
    container: Body, title: str, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> list[str]:
    resources = container.setdefault("resources", {})
    said: list[str] = []
    for which, defaults in (("requests", requests), ("limits", limits)):
        stated = resources.get(which, {})
        missing = sorted(name for name in defaults if name not in stated)
        if missing:
            resources[which] = {**stated, **{name: defaults[name] for name in missing}}
            verb = which[:-1]
            said.append(f"{', '.join(missing)} {verb} for {title} {container.get('name', '')}")
    return said


def _check(entry: Body, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = entry["type"]
    for name, bound in sorted(entry.get("min", {}).items()):
        yield from _minimum(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(entry.get("max", {}).items()):
        yield from _maximum(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(entry.get("maxLimitRequestRatio", {}).items()):
        yield from _ratio(kind, name, bound, requests.get(name), limits.get(name))


def _check_claim(entry: Body, requests: Amounts) -> Iterator[str]:
    kind = entry["type"]
    for name, bound in sorted(entry.get("min", {}).items()):
        yield from _minimum(kind, name, bound, requests.get(name), None)
    for name, bound in sorted(entry.get("max", {}).items()):
        amount = requests.get(name)
        if amount is not None and amount > parse(str(bound)):
            yield f"maximum {name} usage per {kind} is {bound}, but request is {amount}"


def _minimum(
    kind: str, name: str, bound: str, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    words = f"minimum {name} usage per {kind} is {bound}"
    least = parse(str(bound))
    if request is None:
        yield f"{words}.  No request is specified"
    elif request < least:
        yield f"{words}, but request is {request}"
    if limit is not None and limit < least:
        yield f"{words}, but limit is {limit}"


def _maximum(
    kind: str, name: str, bound: str, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    words = f"maximum {name} usage per {kind} is {bound}"
    most = parse(str(bound))
    if limit is None:
        yield f"{words}.  No limit is specified"
    elif limit > most:
        yield f"{words}, but limit is {limit}"
    if request is not None and request > most:
        yield f"{words}, but request is {request}"


def _ratio(
    kind: str, name: str, bound: str, request: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    words = f"{name} max limit to request ratio per {kind} is {bound}"
    if not request or not limit:
        yield f"{words}, but no request is specified or request is 0"
    elif limit.nanos * 10**9 > request.nanos * parse(str(bound)).nanos:
        yield f"{words}, but provided ratio is {limit.nanos / request.nanos:f}"
