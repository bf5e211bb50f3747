"""A scenario: one promise of docs/failure-modes.md, and the attack that puts it to the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gameday.stage import Stage


class Broke(Exception):
    """The promise did not hold; the message says what was seen instead."""


class NotTried(Exception):
    """This machine cannot make the attack; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`run` returns a sentence with what was seen, or raises `Broke` or `NotTried`."""

    name: str
    promise: str
    run: Callable[[Stage], str]


SCENARIOS: list[Scenario] = []


def scenario(promise: str) -> Callable[[Callable[[Stage], str]], Callable[[Stage], str]]:
    """Register a function as a scenario, named as the function is."""

    def register(run: Callable[[Stage], str]) -> Callable[[Stage], str]:
        SCENARIOS.append(Scenario(run.__name__.replace("_", "-"), promise, run))
        return run

    return register


def held(condition: object, otherwise: str) -> None:
    """Raise `Broke` unless the condition is true."""
    if not condition:
        raise Broke(otherwise)
