"""`boilerhouse apply`: objects from files into the house, each created or replaced.

FILE | - ─► documents.read ─► PUT ─► "workload/web created"

All files are read before anything is sent. What the server refuses does not keep the rest back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from boilerhouse.cli import documents
from boilerhouse.cli.documents import Applied
from boilerhouse.cli.rest import FAILED, Failure, Rest


def run(rest: Rest, files: Sequence[str]) -> int:
    """Apply every object of every file; return the exit code."""
    objects = [one for file in files for one in documents.read(_text(file), file)]
    exit_code = 0
    for one in objects:
        try:
            typer.echo(f"{one} {_apply(rest, one)}")
        except Failure as failure:
            if not failure.status:
                raise  # nobody answers: nobody will for the next one
            typer.echo(f"boilerhouse: {one}: {failure}", err=True)
            exit_code = FAILED
    return exit_code


def _apply(rest: Rest, one: Applied) -> str:
    before = _version(rest, one)
    status, after = rest.call("PUT", one.path, one.body)
    if status == 201:
        return "created"
    return "unchanged" if before and before == after.get("resourceVersion") else "configured"


def _version(rest: Rest, one: Applied) -> str:
    try:
        return str(rest.call("GET", one.path)[1].get("resourceVersion", ""))
    except Failure as failure:
        if failure.status != 404:
            raise
        return ""


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Failure(f"{file}: {reason}", 2) from None
