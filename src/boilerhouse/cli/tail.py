"""`boilerhouse logs`: what an instance has written, and with -f goes on to write."""

from __future__ import annotations

import sys

from boilerhouse.cli.rest import Rest, segment


def run(
    rest: Rest, instance: str, *, follow: bool, previous: bool, tail: int | None, since: str | None
) -> int:
    """Copy the log to stdout, as bytes, as they come."""
    query = {"follow": "true"} if follow else {}
    if previous:
        query["previous"] = "true"
    if tail is not None:
        query["tail"] = str(tail)
    if since is not None:
        query["since"] = since
    with rest.stream("GET", f"instances/{segment(instance)}/logs", query=query) as answer:
        for chunk in answer.iter_raw():
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return 0
