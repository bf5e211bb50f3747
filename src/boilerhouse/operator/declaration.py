"""A controller as it is declared: what it does, what wakes it, and how urgent it is.

Declaration ─► Loop.controller ─► Controller, whose queue hears of every change that concerns it
            └► sources ─► Manager
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from boilerhouse.core.clock import Clock, Random
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import FOREGROUND, NORMAL, Gate
from boilerhouse.platform.loop.queue import KeyedQueue
from boilerhouse.platform.loop.recorder import Recorder

T = TypeVar("T", bound=Object)
S = TypeVar("S")
P = TypeVar("P")


def itself(change: Change[Any]) -> Iterable[Key]:
    """A change concerns the object that has changed."""
    return (change.key,)


def at_once(key: Key) -> int:
    """The priority of what does not give way to claims."""
    return FOREGROUND


def gives_way(key: Key) -> int:
    """The priority of what gives way to claims."""
    return NORMAL


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """An informer whose changes wake the keys that they concern.

    With `after`, what happens within that time is looked at together.
    """

    informer: Informer[T]
    concerns: Callable[[Change[T]], Iterable[Key]] = itself
    after: timedelta | None = None

    def wake(self, queue: KeyedQueue[Key]) -> None:
        """Add to the queue whatever is concerned, from now on."""
        after = self.after

        def changed(change: Change[T]) -> None:
            for key in self.concerns(change):
                if after is None:
                    queue.add(key)
                else:
                    queue.add_after(key, after)

        self.informer.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Declaration(Generic[S, P]):
    """One controller. Without `keys` its objects are those of the first informer it watches."""

    name: str
    read: Callable[[Key], Awaitable[S | None]]
    decide: Callable[[S], P]
    apply: Callable[[Key, S, P], Awaitable[timedelta | None]]
    watches: tuple[Watch[Any], ...]
    keys: Callable[[], Iterable[Key]] | None = None
    workers: int = 1
    leader_only: bool = True
    priority: Callable[[Key], int] = gives_way
    recorder: Recorder | None = None  # instead of the one that all share

    def all_keys(self) -> list[Key]:
        return list(self.watches[0].informer.cache if self.keys is None else self.keys())


@dataclass(frozen=True, slots=True)
class Loop:
    """What all controllers of a process share."""

    clock: Clock
    rng: Random
    recorder: Recorder
    gate: Gate

    def controller(self, declared: Declaration[S, P]) -> Controller[Key, S, P]:
        """Make the controller, and have it woken."""
        controller: Controller[Key, S, P] = Controller(
            declared.name,
            read=declared.read,
            decide=declared.decide,
            apply=declared.apply,
            keys=declared.all_keys,
            clock=self.clock,
            rng=self.rng,
            recorder=declared.recorder or self.recorder,
            workers=declared.workers,
            leader_only=declared.leader_only,
            gate=self.gate,
            priority=declared.priority,
        )
        for watch in declared.watches:
            watch.wake(controller.queue)
        return controller


def sources(declared: Iterable[Declaration[Any, Any]]) -> list[Informer[Any]]:
    """Return the informers that controllers watch, each once."""
    return list(dict.fromkeys(watch.informer for one in declared for watch in one.watches))
