"""`boilerhouse claim` and `boilerhouse release`: a tenant's instance, given and taken away."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from boilerhouse.cli.rest import PATIENCE, PENDING, Failure, Rest, print_json, segment
from boilerhouse.cli.snapshot import size_of


def claim(rest: Rest, tenant: str, workload: str, *, resume: bool, wait: float, output: str) -> int:
    """Claim; exit 0 when the instance is there, PENDING when it is still to come."""
    asked = {"workload": workload, "resume": resume}
    status, body = _ask(rest, f"tenants/{segment(tenant)}/claim", asked, wait)
    if output == "json":
        print_json(body)
    elif status == 202:
        typer.echo(_not_yet(tenant, workload, body), err=True)
    else:
        endpoint = body.get("endpoint") or {}
        where = f" at {endpoint['host']}:{endpoint['port']}" if endpoint.get("port") else ""
        took = f"{body['source']}, {body['timings']['total']:.1f} ms"
        typer.echo(f"{body['instanceId']}{where} ({took})")
        for other in (body.get("endpoints") or ())[1:]:
            typer.echo(f"  {other['port']} at {other['host']}:{other['hostPort']}")
        if body.get("detail"):
            typer.echo(f"boilerhouse: {body['instanceId']}: {body['detail']}", err=True)
        if not resume and body["source"] == "existing":
            words = f"{tenant} has this instance of {workload} already: release it first"
            typer.echo(f"boilerhouse: --no-resume had no effect: {words}", err=True)
    return PENDING if status == 202 else 0


def _not_yet(tenant: str, workload: str, body: Mapping[str, Any]) -> str:
    """Say why a claim has no instance that can be used."""
    why = body.get("detail", "")
    if body.get("instanceId"):
        cause = why or "it is not ready"
        return f"{tenant}'s instance {body['instanceId']} of {workload} cannot be used: {cause}"
    phase = f"{body['phase']}: {why}" if why else body["phase"]
    return f"{tenant} has no instance of {workload} yet ({phase})"


def release(
    rest: Rest, tenant: str, workload: str, *, retry: bool, wait: float, output: str
) -> int:
    """Release; exit 0 when the instance is gone, PENDING when that is still under way."""
    path = f"tenants/{segment(tenant)}/release{'/retry' if retry else ''}"
    return _release(rest, path, tenant, workload, wait, output)


def force(rest: Rest, tenant: str, workload: str, *, yes: bool, wait: float, output: str) -> int:
    """Give up what cannot be saved. What that is comes first, and people are asked."""
    path = f"tenants/{segment(tenant)}/release/force"
    _, told = rest.call("POST", path, {"workload": workload}, query={"dryRun": "true"})
    for line in _losses(told["lost"]):
        typer.echo(line, err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise Failure("nothing was done: say --yes", 2)
        typer.confirm("Give it up?", abort=True, err=True)
    return _release(rest, path, tenant, workload, wait, output, " by force")


def _release(
    rest: Rest, path: str, tenant: str, workload: str, wait: float, output: str, how: str = ""
) -> int:
    status, body = _ask(rest, path, {"workload": workload}, wait)
    if output == "json":
        print_json(body)
    elif status == 202:
        typer.echo(f"{tenant}'s {workload} is still being released ({body['phase']})", err=True)
    else:
        typer.echo(f"{tenant}'s {workload} is released{how}{_saved(body.get('snapshot'))}")
    return PENDING if status == 202 else 0


def _ask(rest: Rest, path: str, body: object, wait: float) -> tuple[int, Any]:
    """Make a call that waits for its outcome for so many seconds."""
    query = {"wait": f"{wait:g}"}
    return rest.call("POST", path, body, query=query, timeout=wait + PATIENCE)


def _saved(snapshot: Mapping[str, Any] | None) -> str:
    if snapshot is None:
        return ""
    version = f" as version {snapshot['version']}" if "version" in snapshot else ""
    if snapshot["current"]:
        return f"; its files are saved{version}"
    return (
        f"; its files are saved{version}, beside the current version, which came to be meanwhile:"
        " see `boilerhouse snapshot ls`"
    )


def _losses(lost: Mapping[str, Any]) -> Iterator[str]:
    yield f"lost: {lost['detail']}"
    last, usage = lost.get("lastSnapshot"), lost.get("usage")
    if last is not None:
        yield f"last snapshot: version {last['version']}, {last['createdAt']}"
    if usage is not None:
        least = "" if usage["complete"] else "at least "
        yield f"in the instance: {least}{size_of(usage['bytes'])} in {usage['entries']} files"
    for unknown in lost.get("unknown") or ():
        yield f"unknown: {unknown}"
