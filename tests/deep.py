"""Trees deeper than any path can be written: made and looked at by descriptors."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def bottom(path: Path, levels: int, name: str = "d", *, make: bool = False) -> Iterator[int]:
    """Go down so many levels below a directory, and yield the descriptor of the last."""
    here = os.open(path, OPEN)
    try:
        for _ in range(levels):
            if make:
                os.mkdir(name, dir_fd=here)
            below = os.open(name, OPEN, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def write(directory: int, name: str, content: bytes) -> None:
    """Make a file in a directory."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def read(directory: int, name: str) -> bytes:
    """Read a file in a directory."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        return os.read(file, 1 << 20)
    finally:
        os.close(file)


def dig(path: Path, levels: int, name: str = "d", content: bytes = b"precious") -> None:
    """Make directories in one another, and the file `end` in the last."""
    path.mkdir(parents=True, exist_ok=True)
    with bottom(path, levels, name, make=True) as last:
        write(last, "end", content)


@contextlib.contextmanager
def somewhere() -> Iterator[Path]:
    """Have a directory for deep trees, which pytest could not remove.

    In memory where there is some: a disk may take milliseconds for each level.
    """
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="boilerhouse-test-", dir=parent))
    try:
        yield path
    finally:
        subprocess.run(["rm", "-rf", path], check=True)
