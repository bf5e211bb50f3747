"""What a post-mortem says, and where it is kept.

A Secret and no ConfigMap: what a program wrote last may hold what nobody else should read.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from boilerhouse.core.names import GROUP

COMPONENT = f"{GROUP}/component"
POST_MORTEM = "post-mortem"  # value of the label `component`
DEATH = f"{GROUP}/death"  # annotation: which death it was, so that it is written down once
DIED_AT = f"{GROUP}/died-at"  # annotation

REPORT, LOG = "report.json", "log"  # entries of the Secret

LOG_LINES = 2000
LOG_BYTES = 60 << 10  # with the report less than 64 KiB
MESSAGE_CHARACTERS = 2048
KEPT = 5  # of one tenant and workload
KEPT_FOR = timedelta(days=7)


def secret_name(pod: str) -> str:
    """Return the name of the Secret that tells how an instance died."""
    return f"postmortem-{pod}"


class Report(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How an instance died. The end of its log is kept beside it."""

    instance: str
    tenant_id: str
    workload_ref: str
    claim: str
    died_at: str
    reason: str
    message: str = ""
    exit_code: int | None = None
    restarts: int = 0  # of the tenant's program, as was told with its death
    node: str = ""
    log_missing: str = ""  # why there is no log
    log_truncated: bool = False
