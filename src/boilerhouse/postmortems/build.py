"""The Secret of a post-mortem, as plain data. Pure."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.postmortems.model import (
    COMPONENT,
    DEATH,
    DIED_AT,
    LOG,
    LOG_BYTES,
    POST_MORTEM,
    REPORT,
    Report,
    secret_name,
)

Body = dict[str, Any]


def ending(log: bytes) -> tuple[bytes, bool]:
    """Return the end of a log as far as it is kept, in whole lines, and whether it was cut."""
    if len(log) <= LOG_BYTES:
        return log, False
    kept = log[-LOG_BYTES:]
    _, newline, lines = kept.partition(b"\n")
    return (lines if newline and lines else kept), True


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
