"""The containers of a Pod's spec, and what they ask for together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from boilerhouse.embedded.fields.quantity import ZERO, Quantity, parse

Body = Mapping[str, Any]
Amounts = dict[str, Quantity]


def containers_of(spec: Body) -> list[Any]:
    """Return every container, in the order in which they start: init containers first."""
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def quantities(values: Body) -> Amounts:
    return {name: parse(str(value)) for name, value in values.items()}


def amounts(container: Body, which: str) -> Amounts:
    """Return the `requests` or `limits` of a container."""
    return quantities(container.get("resources", {}).get(which, {}))


def pod_total(spec: Body, which: str) -> Amounts:
    """Add up `requests` or `limits` of a Pod as the scheduler does: containers and sidecars run
    together, other init containers one after another, the larger of the two counts."""
    running = _sum(amounts(container, which) for container in spec.get("containers", ()))
    starting: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers", ()):
        together = _sum([sidecars, amounts(container, which)])
        if container.get("restartPolicy") == "Always":
            sidecars = together
        starting = _larger(starting, together)
    total = _larger(_sum([running, sidecars]), starting)
    return _sum([total, quantities(spec.get("overhead", {}))])


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, ZERO), other.get(name, ZERO)) for name in one | other}
