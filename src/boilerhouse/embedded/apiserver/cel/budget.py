"""How much work the rules of one object may be: after that, evaluation stops.

Rules.check ──► refill ──► loops, comparisons, strings: spend ──► TooExpensive

Everything is decided on one event loop, so a rule that takes a second would stop the whole server
for a second. A real server bounds the cost of a call and of a request in the same way. Time itself
is no measure: an object must not be valid on a fast machine and invalid on a busy one.

A step is worth about a tenth of a microsecond. There is one budget for the process: an evaluation
runs to its end without a pause, on one thread, so no two are ever under way.
"""

from __future__ import annotations

from typing import Any, Final

# Some 50 to 100 ms. A rule over scalars takes 20 to 100 steps, so this is thousands of them.
STEPS: Final = 500_000
# What one turn of a loop costs before its body is counted.
TURN: Final = 10
# Each part of an expression.
PART: Final = 3
# Characters per step: to make a string, to look through one, to compare two.
_MADE: Final = 16
_SEARCHED: Final = 64
_COMPARED: Final = 1024


class TooExpensive(Exception):
    """The budget is used up. Not an error of CEL's: `||` and `exists` must not absorb it."""


class _Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS


_budget = _Budget()


def refill() -> None:
    _budget.left = STEPS


def spend(steps: int) -> None:
    _budget.left -= steps
    if _budget.left < 0:
        raise TooExpensive


def make(length: int) -> None:
    """Pay for a string or bytes of this length, before it is made."""
    spend(1 + length // _MADE)


def search(text: Any) -> None:
    """Pay for looking through a string."""
    spend(1 + len(text) // _SEARCHED)


def compare(value: Any) -> None:
    """Pay for comparing with this value, which is no list and no map."""
    if value.__class__ in (str, bytes) and len(value) >= _COMPARED:
        spend(len(value) // _COMPARED)
