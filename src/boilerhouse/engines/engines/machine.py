"""The lifecycle of a FireboltEngine (S2)."""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class EnginePhase(StrEnum):
    CREATING = "creating"
    SWITCHING = "switching"
    DRAINING = "draining"
    CLEANING = "cleaning"
    STABLE = "stable"
    STOPPED = "stopped"


_P = EnginePhase

# Nothing moves in these until something changes.
SETTLED = frozenset((_P.STABLE, _P.STOPPED))
# In these a generation may be made, so what it is made of must be known and sound. The others only
# finish what was begun with objects that are there, whatever becomes of class and instance.
RENDERING = SETTLED | {_P.CREATING}


def settled(replicas: int) -> EnginePhase:
    """Return the phase in which an active generation of so many replicas settles.

    The only such choice. By the generation's replicas, not the spec's: an edit that came meanwhile
    has not taken effect, and an aborted one never will.
    """
    return _P.STABLE if replicas else _P.STOPPED


_CHANGED = (
    "the spec, the class or the instance changed, or the generation was lost or tampered with"
)
_ABORTED = "the new generation was aborted: the one that serves stays, with {} replicas"
_FIRST = "the Service selects the first generation, which has {} replicas"
_NOTHING = "no old generation is left; the one that serves has {} replicas"
_CLEANED = "the old generation is deleted; the one that serves has {} replicas"
_SOME, _NONE = "more than zero", "zero"

ENGINE = Machine(
    name="Engine",
    meanings={
        _P.CREATING: "A new generation is made, and waited for until all its Pods are ready.",
        _P.SWITCHING: "The Service is made to select the new generation.",
        _P.DRAINING: "The old generation finishes its work.",
        _P.CLEANING: "The old generation is deleted.",
        _P.STABLE: "One generation serves, as the spec asks.",
        _P.STOPPED: "One generation is there with no Pods, as the spec asks.",
    },
    initial=_P.CREATING,
    edges=(
        Edge(_P.CREATING, _P.SWITCHING, "all Pods of the new generation are ready"),
        Edge(_P.CREATING, _P.STABLE, _ABORTED.format(_SOME)),
        Edge(_P.CREATING, _P.STOPPED, _ABORTED.format(_NONE)),
        Edge(
            _P.SWITCHING,
            _P.CREATING,
            "the new generation was lost, or is not ready any more, before the Service selected it",
        ),
        Edge(_P.SWITCHING, _P.DRAINING, "the Service selects the new generation"),
        Edge(_P.SWITCHING, _P.STABLE, _FIRST.format(_SOME)),
        Edge(_P.SWITCHING, _P.STOPPED, _FIRST.format(_NONE)),
        Edge(_P.DRAINING, _P.CLEANING, "the old generation has finished, or is not waited for"),
        Edge(_P.DRAINING, _P.STABLE, _NOTHING.format(_SOME)),
        Edge(_P.DRAINING, _P.STOPPED, _NOTHING.format(_NONE)),
        Edge(_P.CLEANING, _P.STABLE, _CLEANED.format(_SOME)),
        Edge(_P.CLEANING, _P.STOPPED, _CLEANED.format(_NONE)),
        Edge(_P.STABLE, _P.CREATING, _CHANGED),
        Edge(_P.STOPPED, _P.CREATING, _CHANGED),
    ),
)
