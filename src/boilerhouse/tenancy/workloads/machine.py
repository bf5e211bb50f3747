"""The lifecycle of a Workload (S0)."""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class WorkloadPhase(StrEnum):
    CREATING = "Creating"
    READY = "Ready"
    ERROR = "Error"


_P = WorkloadPhase

# There is no Ready → Error: what breaks later (a Secret that vanishes) harms new instances only,
# and is told by the condition Degraded.
WORKLOAD = Machine(
    name="Workload",
    meanings={
        _P.CREATING: "The spec is being checked and its image made available.",
        _P.READY: "Instances can be made of it.",
        _P.ERROR: "It cannot be used; detail lists every reason.",
    },
    initial=_P.CREATING,
    edges=(
        Edge(_P.CREATING, _P.READY, "the spec is sound and the image is there"),
        Edge(_P.CREATING, _P.ERROR, "the spec is not sound, or the image cannot be had"),
        Edge(_P.READY, _P.CREATING, "the spec was changed"),
        Edge(
            _P.ERROR,
            _P.CREATING,
            "another try: the spec was changed, the cause went away, or the operator was restarted",
        ),
    ),
)
