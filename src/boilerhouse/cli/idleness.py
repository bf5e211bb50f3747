"""`boilerhouse idle`: whether an instance counts as used, by which signs, and what comes then."""

from __future__ import annotations

import typer

from boilerhouse.cli.get import Cell, Item, table
from boilerhouse.cli.rest import Rest, print_json, segment
from boilerhouse.core.clock import SystemClock


def _age(item: Item) -> object:
    age = item.get("ageSeconds")
    return None if age is None else f"{age:.1f} s"


COLUMNS: dict[str, Cell] = {
    "SIGNAL": lambda item: item["name"],
    "COUNTS": lambda item: item["counts"],
    "AGO": _age,
    "DETAIL": lambda item: item.get("detail"),
}


def run(rest: Rest, tenant: str, workload: str, output: str) -> int:
    """Explain it."""
    _, told = rest.call("GET", f"tenants/{segment(tenant)}/workloads/{segment(workload)}/idle")
    if output == "json":
        print_json(told)
        return 0
    left = told.get("secondsLeft")
    when = f", {left:.0f} s left" if left else ""
    typer.echo(f"{told['state']}: {told['why']}{when}")
    typer.echo(f"then: {told['then']}")
    typer.echo(table(COLUMNS, told["signals"], SystemClock().now()))
    return 0
