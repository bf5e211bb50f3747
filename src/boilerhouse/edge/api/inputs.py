"""What callers send, read by one rule each: a mistake is a 400 that names the rule."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from litestar.params import QueryParameter
from msgspec import Meta

from boilerhouse.core.clock import Clock, parse_time
from boilerhouse.core.names import TENANT_RULE, is_tenant_id
from boilerhouse.edge.api.auth import Caller
from boilerhouse.edge.api.errors import Problem, bad_request

Wait = Annotated[
    float,
    QueryParameter(ge=0, le=300, description="Seconds to wait for the outcome, 0 to 300."),
]
DEFAULT_WAIT = 30.0
SHORTEST = 0.5  # seconds: `wait=0` still writes the wish before it answers

Name = Annotated[str, Meta(min_length=1, max_length=253)]

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s?)?", re.ASCII)


def tenant_id(text: str) -> str:
    """Accept a tenant's id, or refuse it with the rule."""
    if not is_tenant_id(text):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise Problem(400, "BadTenantId", f"{shown!r} is not a tenant id: {TENANT_RULE}")
    return text


def one_workload(workload: str | None, workload_ref: str | None) -> str:
    """Return the workload that a body names, by either of two names for it."""
    named = {name for name in (workload, workload_ref) if name is not None}
    if len(named) != 1:
        raise bad_request(
            'workload: name one, as in {"workload": "my-agent"}'
            if not named
            else "workload and workloadRef name two different workloads"
        )
    return named.pop()


def own_tenant(caller: Caller, text: str, workload: str | None = None) -> str:
    """Accept a tenant's id that this caller may speak of; to others it does not exist."""
    tenant = tenant_id(text)
    if not caller.admin and (tenant != caller.tenant or workload not in (None, caller.workload)):
        raise Problem(404, "TenantNotFound", f"there is no tenant {tenant!r}")
    return tenant


def moment(text: str, clock: Clock) -> datetime:
    """Read `since`: an RFC 3339 time, or how long ago: `90`, `90s`, `10m`, `1h30m`, `2d`."""
    found = _DURATION.fullmatch(text.strip())
    if found is not None and any(found.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        try:
            return clock.now() - ago
        except OverflowError:
            raise bad_request(f"since: {text!r} is too long ago") from None
    try:
        # A plus sign in a query string arrives as a blank.
        return parse_time(text.strip().replace(" ", "+"))
    except ValueError:
        raise bad_request(
            f"since: {text!r} is neither a time (2026-01-31T12:00:00Z) nor a duration (90s, 1h30m)"
        ) from None
