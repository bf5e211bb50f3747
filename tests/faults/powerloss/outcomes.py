"""Everything that a crash may leave, one after another: no rng is involved.

Disk.open_questions ──► answers, in every combination ──► Disk.left ──► Image ──► fingerprint

A crash decides for each name and each file's data whether they made it. While there are few such
questions all combinations are tried. Where there are too many, all those are that differ in a few
answers from a crash that lost everything, or from one that lost nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, product
from math import prod

from tests.faults.powerloss.disk import Disk, Image


def outcomes(disk: Disk, most: int | None) -> Iterator[Image]:
    """Return what a crash at this moment may leave, some of it twice; None: all of it."""
    questions = disk.open_questions()
    for chosen in combined([len(answers) for answers in questions.values()], most):
        yield disk.left(
            {
                question: answers[which]
                for (question, answers), which in zip(questions.items(), chosen, strict=True)
            }
        )


def combined(sizes: Sequence[int], most: int | None) -> Iterator[tuple[int, ...]]:
    """Combine one of each: in every way if there are no more than `most`, else as said above."""
    if most is None or prod(sizes) <= most:
        yield from product(*map(range, sizes))
        return
    lost, kept = tuple(0 for _ in sizes), tuple(size - 1 for size in sizes)
    tried = 0
    for deviations in range(len(sizes) + 1):
        for base in (lost, kept):
            for places in combinations(range(len(sizes)), deviations):
                others = ([n for n in range(sizes[at]) if n != base[at]] for at in places)
                for answers in product(*others):
                    changed = list(base)
                    for at, answer in zip(places, answers, strict=True):
                        changed[at] = answer
                    yield tuple(changed)
                    tried += 1
        # One other answer is tried in any case, more at once while there is room for the next lot.
        if deviations and tried * len(sizes) > most:
            return


def fingerprint(image: Image) -> Hashable:
    """Return what two images share if no program could tell them apart."""
    first: dict[int, str] = {}
    for path, number in sorted(image.names.items()):
        first.setdefault(number, path)
    return (
        frozenset(image.directories),
        frozenset(
            (path, first[number], image.contents[number]) for path, number in image.names.items()
        ),
    )
