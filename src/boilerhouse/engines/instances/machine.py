"""The lifecycle of a FireboltInstance."""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class InstancePhase(StrEnum):
    PROVISIONING = "Provisioning"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"


_P = InstancePhase

_UNCURABLE = "its spec asks for what cannot be done; only another spec can help"

INSTANCE = Machine(
    name="Instance",
    meanings={
        _P.PROVISIONING: "The metadata service is being made.",
        _P.READY: "The metadata service answers; engines can use the instance.",
        _P.DEGRADED: "It was ready, and the metadata service does not answer now.",
        _P.FAILED: "It cannot become ready; detail says why. Another spec is tried anew.",
    },
    initial=_P.PROVISIONING,
    edges=(
        Edge(_P.PROVISIONING, _P.READY, "the metadata service answers"),
        Edge(_P.PROVISIONING, _P.FAILED, _UNCURABLE),
        Edge(_P.READY, _P.DEGRADED, "the metadata service does not answer"),
        Edge(_P.READY, _P.FAILED, _UNCURABLE),
        Edge(_P.DEGRADED, _P.READY, "the metadata service answers again"),
        Edge(_P.DEGRADED, _P.FAILED, _UNCURABLE),
        Edge(_P.FAILED, _P.PROVISIONING, "the spec was changed"),
    ),
)
