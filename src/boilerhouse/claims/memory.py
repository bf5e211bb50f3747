"""What a process remembers of its claims between two passes: the results of steps.

step ─► Memory ─► next Seen

Losing it costs a repeated step and nothing else (design rule 1: steps are idempotent).
"""

from __future__ import annotations

from collections import OrderedDict

from boilerhouse.claims.seen import ClaimSeen
from boilerhouse.core.clock import Clock, Random
from boilerhouse.kube.resources import Key
from boilerhouse.loop.setbacks import Setbacks

LIMIT = 20_000


class Memory:
    def __init__(self, clock: Clock, chance: Random) -> None:
        self.setbacks: Setbacks[Key] = Setbacks(clock, chance)
        self._sole: OrderedDict[Key, str] = OrderedDict()  # the claim's UID, and version
        self._delivered: OrderedDict[Key, str] = OrderedDict()  # the agent's life

    def is_sole(self, key: Key, claim: ClaimSeen) -> bool:
        """Whether the claim was found to be the only one for its tenant and workload.

        `rivals.py` says for how long: a canonical one for ever, another at this version.
        """
        return self._sole.get(key) == _looked_at(claim)

    def is_delivered(self, key: Key, life: str) -> bool:
        return self._delivered.get(key) == life

    def note_sole(self, key: Key, claim: ClaimSeen) -> None:
        _remember(self._sole, key, _looked_at(claim))

    def note_delivered(self, key: Key, life: str) -> None:
        _remember(self._delivered, key, life)

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self.setbacks.clear(key)
        self._sole.pop(key, None)
        self._delivered.pop(key, None)


def _looked_at(claim: ClaimSeen) -> str:
    return claim.uid if claim.canonical else f"{claim.uid} at {claim.version}"


def _remember(table: OrderedDict[Key, str], key: Key, value: str) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > LIMIT:
        table.popitem(last=False)
