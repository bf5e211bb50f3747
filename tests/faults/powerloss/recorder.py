"""Runs a program on a recording disk.

recorder.c (LD_PRELOAD) ──► log file ──► records() ──► disk.py replays it

The program promises things by `mark(text)`: whatever it marked must still be true after a power
loss at any later moment.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.absence import absent

_SOURCE = Path(__file__).with_name("recorder.c")
_REPOSITORY = Path(__file__).parents[3]
_HEAD = struct.Struct("<cQQIII")


class Record(NamedTuple):
    """One thing that happened: C create, D mkdir, W write, T truncate, S sync, F failed sync,
    R rename, L link, U unlink or rmdir, M mark."""

    kind: str
    inode: int
    number: int
    path: str
    second: str
    data: bytes


class Recording(NamedTuple):
    """What happened under a directory, and the inode by which syncs of that directory name it."""

    root_inode: int
    records: list[Record]


def build(directory: Path) -> Path:
    """Compile the recorder. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        absent("recording a disk needs a C compiler, and `cc` is not in PATH")
    library = directory / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-lpthread"]
    subprocess.run(command, check=True)
    return library


def record(
    library: Path,
    root: Path,
    log: Path,
    command: Sequence[str],
    *,
    fail_every: int = 0,
    timeout: float = 60,
) -> Recording:
    """Run a command and return what it did under `root`, which must be empty.

    With `fail_every`, after the first mark each so-many-th sync of a file fails: a dying disk.
    """
    root = root.resolve()
    assert not any(root.iterdir()), f"{root} must be empty before the recording"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "POWERLOSS_ROOT": str(root),
        "POWERLOSS_LOG": str(log),
        "POWERLOSS_FAIL_EVERY": str(fail_every),
    }
    subprocess.run(command, env=environment, cwd=_REPOSITORY, check=True, timeout=timeout)
    return Recording(root.stat().st_ino, list(records(log, root)))


def record_many(library: Path, directory: Path, command: Sequence[str]) -> dict[str, Recording]:
    """Run a program that records by itself, in DIRECTORY/<name>/disk and …/log; return all by name.

    It sets POWERLOSS_ROOT and POWERLOSS_LOG before each process that has a recording of its own.
    """
    directory = directory.resolve()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "POWERLOSS_ROOT": str(directory / "nothing"),
        "POWERLOSS_LOG": str(directory / "nothing.log"),
    }
    subprocess.run(command, env=environment, cwd=_REPOSITORY, check=True, timeout=100)
    return {
        str(log.parent.relative_to(directory)): Recording(
            (log.parent / "disk").stat().st_ino, list(records(log, log.parent / "disk"))
        )
        for log in sorted(directory.rglob("log"))
    }


def records(log: Path, root: Path) -> Iterator[Record]:
    """Read a log; paths become relative to `root`, and "" for what lies outside."""
    data = log.read_bytes()
    at = 0
    while at < len(data):
        kind, inode, number, *lengths = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        parts = []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        path, second = (_relative(os.fsdecode(part), root) for part in parts[:2])
        yield Record(kind.decode(), inode, number, path, second, parts[2])


def mark(text: str) -> None:
    """Promise something; only works under the recorder."""
    ctypes.CDLL(None).powerloss_mark(text.encode())


def _relative(path: str, root: Path) -> str:
    normal = Path(os.path.normpath(path)) if path else root
    return str(normal.relative_to(root)) if normal.is_relative_to(root) and path else ""
