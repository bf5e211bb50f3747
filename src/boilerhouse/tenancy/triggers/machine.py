"""The lifecycle of a Trigger (S0)."""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class TriggerPhase(StrEnum):
    ACTIVE = "Active"
    ERROR = "Error"


_P = TriggerPhase

TRIGGER = Machine(
    name="Trigger",
    meanings={
        _P.ACTIVE: "It listens, or is about to: the condition AdapterReady tells which.",
        _P.ERROR: "It does not listen; detail says why.",
    },
    # Until the gateway has tried, the condition AdapterReady is Unknown.
    initial=_P.ACTIVE,
    edges=(
        Edge(
            _P.ACTIVE, _P.ERROR, "its adapter cannot run: a Secret is missing, a setting is wrong"
        ),
        Edge(_P.ERROR, _P.ACTIVE, "the cause was fixed and the gateway started the adapter again"),
    ),
)
