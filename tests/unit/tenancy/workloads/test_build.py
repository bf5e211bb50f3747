"""What is written for a workload."""

from __future__ import annotations

from boilerhouse.core import names
from boilerhouse.tenancy.workloads.build import finalizers_patch, status_patch
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import WorkloadStatus
from boilerhouse.tenancy.workloads.seen import WorkloadSeen


def workload(*finalizers: str) -> WorkloadSeen:
    return WorkloadSeen("web", "uid-1", "7", 1, WorkloadStatus(), finalizers)


AS_SEEN = {"uid": "uid-1", "resourceVersion": "7"}


def test_only_our_finalizer_comes_and_goes() -> None:
    """Those of others stay, and each patch is bound to what was seen."""
    put = finalizers_patch(workload("theirs"), held=True)
    assert put == {"metadata": {**AS_SEEN, "finalizers": ["theirs", names.FINALIZER]}}
    taken = finalizers_patch(workload("theirs", names.FINALIZER), held=False)
    assert taken == {"metadata": {**AS_SEEN, "finalizers": ["theirs"]}}
    none_left = finalizers_patch(workload(names.FINALIZER), held=False)
    assert none_left == {"metadata": {**AS_SEEN, "finalizers": None}}


def test_a_status_is_its_difference() -> None:
    """What stays is not sent; a phase that was a default is."""
    patch = status_patch(workload(), WorkloadStatus(phase=WorkloadPhase.READY, detail="fine"))
    assert patch == {"metadata": AS_SEEN, "status": {"phase": "Ready", "detail": "fine"}}
