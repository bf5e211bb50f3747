"""Loses power at many moments of a recording and asks each time whether the promises still hold.

Recording ──► moments ──► Disk.crash ──► directory ──► broken(directory, marks so far) ──► sentences
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from tests.faults.powerloss.disk import Disk, Loss
from tests.faults.powerloss.recorder import Record, Recording

Broken = Callable[[Path, list[str]], Awaitable[list[str]]]
"""Opens what is left and says which of the promises marked so far does not hold."""


async def lose_power(
    recording: Recording, broken: Broken, scratch: Path, rng: random.Random, moments: int
) -> list[str]:
    """Return what is broken after a loss at each of so many moments, or at all if there are fewer.

    Each moment is tried twice: all that was not synced is gone, and one of the milder losses.
    """
    chosen = _choose(recording.records, rng, moments)
    disk = Disk(recording.root_inode)
    marks: list[str] = []
    problems: list[str] = []
    milder = [loss for loss in Loss if loss is not Loss.EVERYTHING]
    for moment in range(len(recording.records) + 1):
        if moment in chosen:
            for loss in (Loss.EVERYTHING, rng.choice(milder)):
                directory = scratch / f"crash-{moment}-{loss.name}"
                disk.crash(loss, rng).write(directory)
                found = await broken(directory, marks)
                problems += [f"record {moment}, {loss.value}: {problem}" for problem in found]
                shutil.rmtree(directory)
        if moment < len(recording.records):
            record = recording.records[moment]
            disk.apply(record)
            if record.kind == "M":
                marks.append(record.data.decode())
    return problems


def unfaithful(recording: Recording, root: Path, ignored: Iterable[str] = ()) -> list[str]:
    """Return the files that a full replay gets wrong: then the recorder has missed something."""
    disk = Disk(recording.root_inode)
    for record in recording.records:
        disk.apply(record)
    replayed = disk.crash(Loss.NOTHING, random.Random(0)).files()
    real = {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    names = (replayed.keys() | real.keys()) - set(ignored)
    return sorted(name for name in names if replayed.get(name) != real.get(name))


def _choose(records: list[Record], rng: random.Random, moments: int) -> set[int]:
    """Half of the moments lie right beside a sync or a promise, the rest anywhere."""
    if moments > len(records):
        return set(range(len(records) + 1))
    critical = [
        moment
        for at, record in enumerate(records)
        for moment in ((at, at + 1) if record.kind in "SM" else ())
    ]
    anywhere = range(len(records) + 1)
    return {rng.choice(critical or anywhere) for _ in range(moments // 2)} | {
        rng.choice(anywhere) for _ in range(moments - moments // 2)
    }
