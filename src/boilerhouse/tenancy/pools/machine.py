"""The lifecycle of a Pool (S0)."""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class PoolPhase(StrEnum):
    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    ERROR = "Error"


_P = PoolPhase

POOL = Machine(
    name="Pool",
    meanings={
        _P.HEALTHY: "At least as many warm instances are ready as were asked for.",
        _P.DEGRADED: "Fewer are ready than were asked for; the pool is being filled.",
        _P.ERROR: "It cannot be filled; detail says why.",
    },
    # An empty pool that is still to be filled.
    initial=_P.DEGRADED,
    edges=(
        Edge(_P.DEGRADED, _P.HEALTHY, "enough warm instances are ready"),
        Edge(
            _P.HEALTHY,
            _P.DEGRADED,
            "too few are ready: one was taken or failed, or the pool was made larger",
        ),
        Edge(_P.HEALTHY, _P.ERROR, "the workload is gone, or its image keeps failing to arrive"),
        Edge(_P.DEGRADED, _P.ERROR, "the workload is gone, or its image keeps failing to arrive"),
        Edge(_P.ERROR, _P.DEGRADED, "the cause went away; the pool is filled again"),
    ),
)
