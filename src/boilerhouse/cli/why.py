"""`boilerhouse why`: the last passes over an object, told as sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import typer

from boilerhouse.cli.rest import Failure, Rest, print_json, segment

SHOWN = 5  # passes; all of them with -o json


def run(rest: Rest, what: str, output: str) -> int:
    """Print what was seen and decided, the newest last."""
    kind, slash, name = what.partition("/")
    if not (kind and slash and name):
        raise Failure(f"{what!r}: want claim/NAME, pool/NAME, workload/NAME or trigger/NAME", 2)
    _, told = rest.call("GET", f"why/{segment(kind)}/{segment(name)}")
    if output == "json":
        print_json(told)
        return 0
    passes = told["passes"]
    for entry in passes[-SHOWN:]:
        typer.echo(f"{entry['at']}  {decided(entry['plan'])}{_ended(entry['result'])}")
    return 0


def _ended(result: str) -> str:
    """Say how a pass ended, if that is more than that it was carried out."""
    return "" if result in ("done", "again") else f"  ({result})"


def decided(plan: Any) -> str:
    """Say a plan in one line: its verb, and what it is about."""
    if not isinstance(plan, Mapping):
        return "nothing to decide" if not plan else str(plan)
    match plan.get("verb"):
        case "Wait":
            again = plan.get("again_in")
            return f"wait: {plan.get('why')}" + (
                f" (look again in {_span(again)})" if again else ""
            )
        case "WriteStatus":
            status = plan["status"]
            detail = f": {status['detail']}" if status.get("detail") else ""
            return f"write {status.get('phase', 'status')} ({plan.get('reason')}){detail}"
        case "Do":
            steps = plan.get("steps") or [plan.get("step")]
            return "do: " + ", ".join(_words(str(step.get("verb"))) for step in steps if step)
        case verb:
            told = {key: value for key, value in plan.items() if key != "verb"}
            return f"{verb} {msgspec.json.encode(told).decode()}"


def _words(verb: str) -> str:
    """Say a verb as people do: AddFinalizer is `add finalizer`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", verb).lower()


def _span(text: str) -> str:
    """Say a duration of ISO 8601 in seconds, minutes or hours."""
    try:
        seconds = msgspec.convert(text, timedelta).total_seconds()
    except msgspec.ValidationError:
        return text
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g} s"
