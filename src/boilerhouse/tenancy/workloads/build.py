"""What is written for a workload, as plain data. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.core.difference import difference
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.seen import WorkloadSeen

Body = dict[str, Any]


def finalizers_patch(workload: WorkloadSeen, *, held: bool) -> Body:
    """Build the merge patch that puts our finalizer on, or takes it, and no other, off."""
    others = [finalizer for finalizer in workload.finalizers if finalizer != names.FINALIZER]
    wanted = [*others, names.FINALIZER] if held else others
    return {"metadata": {**_as_seen(workload), "finalizers": wanted or None}}


def status_patch(workload: WorkloadSeen, status: WorkloadStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided."""
    changes = difference(_plain(workload.status), _plain(status))
    return {"metadata": _as_seen(workload), "status": changes}


def _as_seen(workload: WorkloadSeen) -> Body:
    return {"uid": workload.uid, "resourceVersion": workload.version}


def _plain(status: WorkloadStatus) -> Body:
    # The first phase is a default, which is left out; but a phase that was written must stay.
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}
