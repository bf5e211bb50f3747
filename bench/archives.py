"""Archives of overlays against plain tar: the same tree, the same disk, in turns.

    python -m bench archives

A process of its own measures, so that its children are the workers and tar alone, and the most
memory that any of them had is the worker's (tar and gzip have a fraction of that).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figure, milliseconds
from boilerhouse.platform.archive.clearing import empty
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.packer import Packer, fingerprint
from boilerhouse.platform.archive.unpacker import Unpacker

FILES = 17_000
BYTES = 200_000_000
ROUNDS = 3
SMALL = 30

Measured = dict[str, list[float]]


def figures(directory: Path) -> list[Figure]:
    plant(directory / "source", FILES, BYTES)
    plant(directory / "little", 50, 1_000_000)
    done = subprocess.run(
        [sys.executable, "-m", "bench.archives", directory], stdout=subprocess.PIPE, check=True
    )
    taken: Measured = json.loads(done.stdout)
    memory = taken["memory"][0] / 1024
    tree = f"{BYTES // 1_000_000} MB, {FILES} files"
    return [
        *_against(f"pack {tree}", taken, "pack", "tar czf", 4),
        *_against(f"unpack {tree}", taken, "unpack", "tar xzf", 1.3),
        _timed(f"fingerprint {tree}", taken["fingerprint"]),
        Figure("unpack 1 MB, 50 files", milliseconds(taken["small"]), raw=tuple(taken["small"])),
        Figure("most memory of a worker", f"{memory:.0f} MiB", "≤ 32 MiB", memory <= 32),
    ]


def _against(what: str, taken: Measured, ours: str, theirs: str, budget: float) -> list[Figure]:
    mine, other = statistics.median(taken[ours]), statistics.median(taken[theirs])
    spent = statistics.median(taken[f"{theirs} cpu"]) / statistics.median(taken[f"{ours} cpu"])
    ratio = other / mine
    return [
        Figure(
            what,
            f"{mine:.2f} s, {ratio:.1f} × faster ({spent:.1f} × less CPU)",
            f"≥ {budget} × {theirs}",
            ratio >= budget,
            tuple(taken[ours]),
        ),
        Figure(f"  {theirs}", f"{other:.2f} s", raw=tuple(taken[theirs])),
    ]


def _timed(what: str, taken: list[float]) -> Figure:
    median = statistics.median(taken)
    return Figure(what, f"{median * 1e3:.0f} ms", "≤ 200 ms", median <= 0.2, tuple(taken))


def plant(root: Path, files: int, size: int) -> None:
    """Make a tree like a developer's, of real files: Python's own and those of its packages."""
    found = [
        file
        for name in ("stdlib", "purelib")
        for file in sorted(Path(sysconfig.get_path(name)).rglob("*"))
        if file.is_file() and file.stat().st_size <= size // 20
    ]
    random.Random(7).shuffle(found)
    for made, file in enumerate(itertools.islice(itertools.cycle(found), files)):
        directory = root / f"{made % 40}/{made // 40 % 25}"
        directory.mkdir(parents=True, exist_ok=True)
        # Near the end, files are cut to what is left.
        content = file.read_bytes()[: min(size, 40 * size // (files - made))]
        (directory / f"{made}-{file.name}").write_bytes(content)
        size -= len(content)


async def _pack(source: Path, archive: Path) -> None:
    packer = Packer({"/workspace": source}, owners=Owners())
    try:
        with archive.open("wb") as out:
            async for piece in packer:
                out.write(piece)
    finally:
        await packer.close()


async def _unpack(archive: Path, target: Path) -> None:
    unpacker = Unpacker({"/workspace": target}, limits=Limits(), owners=Owners())
    try:
        with archive.open("rb") as stored:
            while piece := stored.read(256 << 10):
                await unpacker.feed(piece)
        await unpacker.finish()
    finally:
        await unpacker.abort()


def _spent() -> float:
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, -1))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def measure(directory: Path) -> Measured:
    source, target, archive = (directory / name for name in ("source", "target", "a.tar.gz"))
    plain = directory / "plain.tar.gz"
    taken: Measured = {}

    def timed(what: str, work: Callable[[], object]) -> None:
        spent, began = _spent(), time.perf_counter()
        work()
        taken.setdefault(what, []).append(time.perf_counter() - began)
        taken.setdefault(f"{what} cpu", []).append(_spent() - spent)

    def fresh() -> None:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()

    for _ in range(ROUNDS):
        timed("tar czf", lambda: subprocess.run(["tar", "czf", plain, "-C", source, "."]))
        timed("pack", lambda: asyncio.run(_pack(source, archive)))
        timed("fingerprint", lambda: asyncio.run(fingerprint({"/workspace": source})))
        fresh()
        timed("tar xzf", lambda: subprocess.run(["tar", "xzf", plain, "-C", target]))
        fresh()
        timed("unpack", lambda: asyncio.run(_unpack(archive, target)))
    asyncio.run(_pack(directory / "little", archive))
    for _ in range(SMALL):
        asyncio.run(empty({"/workspace": target}))
        timed("small", lambda: asyncio.run(_unpack(archive, target)))
    taken["memory"] = [float(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)]
    return taken


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
