"""The Secret of a post-mortem, as plain data. Pure."""

from __future__ import annotations

import base64
import io
from datetime import datetime
from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.tenancy.postmortems.model import (
    COMPONENT,
    DEATH,
    DIED_AT,
    LOG,
    LOG_BYTES,
    LOG_LINES,
    POST_MORTEM,
    REPORT,
    Report,
    secret_name,
)

Body = dict[str, Any]
_SECONDS = len("2026-01-31T12:00:00")


def ending(log: bytes) -> tuple[bytes, bool]:
    """Return the end of a log as far as it is kept, in whole lines, and whether it was cut."""
    last = b"".join(_lines(log)[-LOG_LINES:])
    if len(last) <= LOG_BYTES:
        return last, last != log
    kept = last[-LOG_BYTES:]
    _, newline, lines = kept.partition(b"\n")
    return (lines if newline and lines else kept), True


def of_life(log: bytes, began: datetime | None, ended: datetime | None) -> bytes:
    """Return the lines of one life, without the times that begin them; without an end, all.

    Times of lives are told in whole seconds, so a line of the life before or after may slip in,
    but none of this one is lost.
    """
    first = b"" if began is None else rfc3339(began)[:_SECONDS].encode()
    last = b"~" if ended is None else rfc3339(ended)[:_SECONDS].encode()
    kept = []
    for line in _lines(log):
        time, _, text = line.partition(b" ")
        if first <= time[:_SECONDS] <= last:
            kept.append(text)
    return b"".join(kept)


def secret(report: Report, log: bytes, number: str) -> Body:
    """Build the Secret; `number` is the death's."""
    data = {REPORT: msgspec.json.encode(report), LOG: log}
    return {
        "metadata": {
            "name": secret_name(report.instance),
            "labels": {
                COMPONENT: POST_MORTEM,
                names.TENANT: names.label_value(report.tenant_id),
                names.WORKLOAD: report.workload_ref,
            },
            "annotations": {
                names.TENANT_ID: report.tenant_id,
                DEATH: number,
                DIED_AT: report.died_at,
            },
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _lines(log: bytes) -> list[bytes]:
    """Split where lines end; a carriage return is part of one, as in a bar of progress."""
    return io.BytesIO(log).readlines()
