"""What an instance may do with triggers: wake its own tenant by the clock, and nothing else.

A trigger is powerful: its guards and drivers can be made to send any Secret anywhere, its tenant
can be another one. An agent inside an instance is not to be trusted with that. So it may write only
what is on the list below, and may change or delete only what it could have written itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boilerhouse.edge.api.auth import Caller
from boilerhouse.edge.api.errors import Problem, too_many
from boilerhouse.tenancy.triggers.objects import TRIGGERS

if TYPE_CHECKING:
    from boilerhouse.edge.api.services import Services

MOST = 10  # triggers per tenant and workload that agents may have
_FIELDS = frozenset({"type", "workloadRef", "tenant", "config"})
_CONFIG = frozenset({"schedule", "timezone", "payload"})


def owner(spec: dict[str, Any]) -> str | None:
    """Return the one tenant that a trigger wakes; None if it may be any."""
    tenant = spec.get("tenant") or {}
    static = tenant.get("static")
    return f"{tenant.get('prefix', '')}{static}" if isinstance(static, str) else None


def agents_mistakes(caller: Caller, spec: dict[str, Any]) -> list[str]:
    """Return everything in a trigger that an agent may not say."""
    tenant = spec.get("tenant") or {}
    config = spec.get("config") or {}
    mistakes = [f"spec.{field}: only an admin may set this" for field in _beyond(spec, _FIELDS)]
    mistakes += [f"spec.config.{field}: unknown to agents" for field in _beyond(config, _CONFIG)]
    if spec.get("type") != "cron":
        mistakes.append("spec.type: agents may only use cron")
    if spec.get("workloadRef") != caller.workload:
        mistakes.append(f"spec.workloadRef: must be {caller.workload!r}")
    if set(tenant) != {"static"} or tenant["static"] != caller.tenant:
        mistakes.append(f"spec.tenant: must be {{static: {caller.tenant!r}}} alone")
    return mistakes


def _beyond(given: dict[str, Any], allowed: frozenset[str]) -> list[str]:
    # What a server filled in with its default says nothing, and is no mistake.
    said = {key for key, value in given.items() if value not in ({}, [], None)}
    return sorted(said - allowed - ({"driver"} if given.get("driver") == "default" else set()))


async def check_agents_trigger(
    services: Services, caller: Caller, spec: dict[str, Any], old: dict[str, Any] | None
) -> None:
    """Refuse what an agent may not write, or may not replace; only in `services.agents_turn`."""
    mistakes = agents_mistakes(caller, spec)
    if mistakes:
        raise Problem(403, "Forbidden", "; ".join(mistakes), details={"errors": mistakes})
    if old is not None:
        check_agents_own(caller, old)
        return
    # Asked of the server, and in turn: the cache does not have what was written a moment ago.
    there = await services.client.raw("GET", TRIGGERS.path(services.client.namespace))
    specs = (trigger.get("spec", {}) for trigger in there["items"])
    own = [spec for spec in specs if caller.sees(owner(spec), spec.get("workloadRef"))]
    if len(own) >= MOST:
        raise too_many(f"an instance may have {MOST} triggers; delete one first", 60)


def check_agents_own(caller: Caller, old: dict[str, Any]) -> None:
    """Refuse to touch a trigger that an admin wrote."""
    if agents_mistakes(caller, old.get("spec", {})):
        name = old["metadata"]["name"]
        raise Problem(403, "Forbidden", f"trigger {name!r} was made by an admin")
