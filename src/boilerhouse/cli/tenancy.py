"""`boilerhouse claim` and `boilerhouse release`: a tenant's instance, given and taken away."""

from __future__ import annotations

import msgspec
import typer

from boilerhouse.cli.rest import PATIENCE, PENDING, Rest, segment


def claim(rest: Rest, tenant: str, workload: str, *, resume: bool, wait: float, output: str) -> int:
    """Claim; exit 0 when the instance is there, PENDING when it is still to come."""
    status, body = rest.call(
        "POST",
        f"tenants/{segment(tenant)}/claim",
        {"workload": workload, "resume": resume},
        query={"wait": f"{wait:g}"},
        timeout=wait + PATIENCE,
    )
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(body), indent=2))
    elif status == 202:
        why = f": {body['detail']}" if body.get("detail") else ""
        typer.echo(f"{tenant} has no instance of {workload} yet ({body['phase']}{why})", err=True)
    else:
        endpoint = body.get("endpoint") or {}
        where = f" at {endpoint['host']}:{endpoint['port']}" if endpoint.get("port") else ""
        took = f"{body['source']}, {body['timings']['total']:.1f} ms"
        typer.echo(f"{body['instanceId']}{where} ({took})")
    return PENDING if status == 202 else 0


def release(rest: Rest, tenant: str, workload: str, *, wait: float, output: str) -> int:
    """Release; exit 0 when the instance is gone, PENDING when that is still under way."""
    status, body = rest.call(
        "POST",
        f"tenants/{segment(tenant)}/release",
        {"workload": workload},
        query={"wait": f"{wait:g}"},
        timeout=wait + PATIENCE,
    )
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(body), indent=2))
    elif status == 202:
        typer.echo(f"{tenant}'s {workload} is still being released ({body['phase']})", err=True)
    else:
        typer.echo(f"{tenant}'s {workload} is released")
    return PENDING if status == 202 else 0
