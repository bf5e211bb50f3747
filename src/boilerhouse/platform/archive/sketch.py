"""An overlay that nothing is written to: what an archive's entries would make, by name.

    Entries ─► Sketch ─► Names: is it there, is it a directory, is anything in it?

So an upload is refused for what a restore would be refused for; tree.py asks the kernel what is
remembered here. An entry takes sixteen bytes, whatever the length of its name: 32 MiB for two
million. Of a name its hash is kept, which nobody outside can foresee; that two of two million are
the same happens once in a million such archives.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from boilerhouse.platform.archive.entries import (
    in_common,
    linked_to_directory,
    linked_to_nothing,
    not_the_overlay,
    through_link,
    twice,
)
from boilerhouse.platform.archive.header import Member
from boilerhouse.platform.archive.reader import Layout
from boilerhouse.platform.archive.source import Source

NOTHING, OTHER, EMPTY, FULL = range(4)  # the last two are directories

_TOP = 0
_BITS = 2  # of a word that say what it is
_WORD = (1 << 64) - 1
_TABLES = 16  # one grows while the others stay: no moment with twice the memory
_SMALLEST = 64


class Names:
    """What is at which place, by the place's number."""

    def __init__(self) -> None:
        self._tables = [array("Q", bytes(8 * _SMALLEST)) for _ in range(_TABLES)]
        self._used = [0] * _TABLES

    def get(self, place: int) -> int:
        """Say what is there."""
        word = place & _WORD
        table = self._tables[word >> 60]
        return table[_slot(table, word >> _BITS)] & 3

    def put(self, place: int, what: int) -> None:
        """Remember what is there from now on."""
        word = place & _WORD
        number = word >> 60
        table = self._tables[number]
        at = _slot(table, word >> _BITS)
        if not table[at]:
            self._used[number] += 1
        table[at] = word >> _BITS << _BITS | what
        if self._used[number] * 3 > len(table) * 2:
            self._tables[number] = _larger(table)


def _slot(table: array[int], key: int) -> int:
    """Find where a key stands, or would."""
    mask = len(table) - 1
    at = key & mask
    while (held := table[at]) and held >> _BITS != key:
        at = at + 1 & mask
    return at


def _larger(table: array[int]) -> array[int]:
    made = array("Q", bytes(16 * len(table)))
    for word in table:
        if word:
            made[_slot(made, word >> _BITS)] = word
    return made


class Sketch:
    """One overlay directory as it would be filled. `imply` counts directories without an entry."""

    def __init__(self, source: Source, imply: Callable[[], None]) -> None:
        self._source = source
        self._imply = imply
        self._names = Names()
        # The directory that something was last put in, with the numbers of those on the way to it.
        # None of them ever becomes anything else: something is in it.
        self._entered: list[bytes] = []
        self._way = [_TOP]

    def directory(self, parts: list[bytes], member: Member) -> None:
        if not parts:
            return
        place = self._enter(parts)
        if self._names.get(place) < EMPTY:
            self._names.put(place, EMPTY)

    def file(self, parts: list[bytes], member: Member, layout: Layout) -> None:
        self._new(parts)
        self._source.skip(layout[2])

    def symlink(self, parts: list[bytes], member: Member) -> None:
        self._new(parts)

    def fifo(self, parts: list[bytes], member: Member) -> None:
        self._new(parts)

    def hard_link(self, parts: list[bytes], member: Member, target: list[bytes]) -> None:
        place = _TOP
        for number, name in enumerate(target, 1):
            place = hash((place, name))
            found = self._names.get(place)
            if found == NOTHING:
                raise linked_to_nothing(member)
            if number == len(target):
                if found != OTHER:
                    raise linked_to_directory(member)
            elif found == OTHER:
                raise through_link(target[:number])
        self._new(parts)

    def _new(self, parts: list[bytes]) -> None:
        if not parts:
            raise not_the_overlay()
        place = self._enter(parts)
        if self._names.get(place) == FULL:
            raise twice(parts)
        self._names.put(place, OTHER)

    def _enter(self, parts: list[bytes]) -> int:
        """Have the directory of something that is to be made; return that one's own number."""
        above = parts[:-1]
        if above != self._entered:
            same = in_common(self._entered, above)
            del self._way[same + 1 :]
            for number in range(same, len(above)):
                self._step(parts, number)
            self._entered = above
        return hash((self._way[-1], parts[-1]))

    def _step(self, parts: list[bytes], number: int) -> None:
        place = hash((self._way[-1], parts[number]))
        found = self._names.get(place)
        if found == OTHER:
            raise through_link(parts[: number + 1])
        if found == NOTHING:
            self._imply()
        if found != FULL:
            self._names.put(place, FULL)
        self._way.append(place)
