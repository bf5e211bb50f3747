"""Whose turn it is to use the node: a machine has one, and two runs would take it away.

taken() ─► flock ─► the node is this run's until it leaves; a second one waits, then gives up

The lock is the kernel's, so whoever dies gives it back. It lies beside the node's namespace rather
than in a cache directory: runs with different caches share the node all the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from cluster.build import Say
from cluster.places import ClusterError

LOCK = Path("/run/boilerhouse-node.lock")
# A whole run of the tests on a busy machine.
_PATIENCE = 3600.0
_REMINDER = 60.0


@contextlib.contextmanager
def taken(say: Say, path: Path = LOCK, patience: float = _PATIENCE) -> Iterator[None]:
    """Have the node to oneself; wait for whoever has it, and say so."""
    with path.open("a+") as lock:
        _wait(lock, say, patience)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def _wait(lock: TextIO, say: Say, patience: float) -> None:
    since = time.monotonic()
    reminded = since - _REMINDER
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        now = time.monotonic()
        if now - since >= patience:
            raise ClusterError(
                f"the node is used by {_holder(lock)} for more than {patience:.0f} s: "
                "wait for its end, or end it, and try again"
            )
        if now - reminded >= _REMINDER:
            say(f"the node is used by {_holder(lock)}: waiting for its end")
            reminded = now
        time.sleep(min(0.2, patience))


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    pid = lock.read().strip()
    if not pid:
        return "another run"
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ")
        where = Path(f"/proc/{pid}/cwd").readlink()
        return f"process {pid} ({' '.join(command.split())[:120]}) in {where}"
    return f"process {pid}"
