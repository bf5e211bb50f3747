"""What is made of an object, once for each version of it.

object ─► Views.of ─► whatever a pure function makes of it

Passes look at the same objects again and again: a pool at all its Pods whenever one of them
changes, a claim at its workload and at itself. What they see of an object changes when it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Generic, TypeVar

from boilerhouse.platform.kube.kinds import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V")

SPARE = 500  # objects that are gone, or were never in the cache


class Views(Generic[T, V]):
    """The views that `make` gives; the newest of each object is remembered.

    Twice as many as there are objects now, and some: then all are made anew, as they are asked for,
    and those of objects that are gone are not.
    """

    def __init__(self, make: Callable[[T], V], there: Sized, spare: int = SPARE) -> None:
        self._make = make
        self._there = there
        self._spare = spare
        self._made: dict[str, tuple[str, V]] = {}  # by UID, with the version it is of

    def of(self, item: T) -> V:
        meta = item.metadata
        known = self._made.get(meta.uid)
        if known is not None and known[0] == meta.resource_version:
            return known[1]
        made = self._make(item)
        if len(self._made) >= 2 * len(self._there) + self._spare:
            self._made.clear()
        self._made[meta.uid] = meta.resource_version, made
        return made
