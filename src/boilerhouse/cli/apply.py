"""`boilerhouse apply`: objects from files into the house, each created or replaced.

FILE | - ─► documents.read ─► PUT ─► "workload/web created" ─► status ─► "is created, but: …"

All files are read before anything is sent. What the server refuses does not keep the rest back.
Whether an object can work is the operator's to say, which takes it a moment: its first words are
waited for when all of them are applied, since one may need another.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from boilerhouse.cli import documents
from boilerhouse.cli.documents import OUR_KINDS, Applied
from boilerhouse.cli.rest import FAILED, Failure, Rest
from boilerhouse.core.clock import SystemClock

JUDGED_IN = 2.0  # seconds for the operator's first words about all that was applied
_CLOCK = SystemClock()
_WARNING = {("LimitsEnforced", "False"), ("Degraded", "True")}


def run(rest: Rest, files: Sequence[str]) -> int:
    """Apply every object of every file; FAILED if one is refused, or cannot work as it is."""
    objects = [one for file in files for one in documents.read(_text(file), file)]
    exit_code = 0
    applied = []
    for one in objects:
        try:
            done = _apply(rest, one)
        except Failure as failure:
            if not failure.status:
                raise  # nobody answers: nobody will for the next one
            typer.echo(f"boilerhouse: {one}: {failure}", err=True)
            exit_code = FAILED
        else:
            typer.echo(f"{one} {done}")
            applied.append((one, done))
    return exit_code if _all_work(rest, applied) else FAILED


def _all_work(rest: Rest, applied: Sequence[tuple[Applied, str]]) -> bool:
    """Tell what the operator says of each object; False if one of them cannot work."""
    end = _CLOCK.monotonic() + JUDGED_IN
    fine = True
    for one, done in applied:
        if one.plural not in OUR_KINDS.values():
            continue
        found = _judged(rest, one, end)
        status = found.get("status", {})
        if status.get("phase") == "Error":
            typer.echo(f"boilerhouse: {one} is {done}, but: {status.get('detail')}", err=True)
            fine = False
        for words in warnings_of(status):
            typer.echo(f"boilerhouse: warning: {one}: {words}", err=True)
    return fine


def _judged(rest: Rest, one: Applied, end: float) -> Mapping[str, Any]:
    """Return an object once the operator has seen it as it is, or when time is up."""
    while True:
        found: Mapping[str, Any] = rest.call("GET", one.path)[1]
        status = found.get("status", {})
        seen = status.get("observedGeneration", 0) >= found.get("generation", 0)
        if (seen and status.get("phase") != "Creating") or _CLOCK.monotonic() >= end:
            return found
        time.sleep(0.05)


def warnings_of(status: Mapping[str, Any]) -> Iterator[str]:
    """Return what a status says that does not keep the object from working."""
    for condition in status.get("conditions", ()):
        if (condition["type"], condition["status"]) in _WARNING:
            yield condition["message"]


def _apply(rest: Rest, one: Applied) -> str:
    before = _edition(_stored(rest, one))
    status, after = rest.call("PUT", one.path, one.body)
    if status == 201:
        return "created"
    return "unchanged" if before and before == _edition(after) else "configured"


def _edition(found: Mapping[str, Any]) -> object:
    """Return what changes with an object's spec, and not with its status where there is one."""
    return found.get("generation") or found.get("resourceVersion")


def _stored(rest: Rest, one: Applied) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = rest.call("GET", one.path)[1]
    except Failure as failure:
        if failure.status != 404:
            raise
        return {}
    return found


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Failure(f"{file}: {reason}", 2) from None
