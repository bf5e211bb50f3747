"""Long-lived processes of ours: started apart from the terminal, recorded, ended by that record.

spawn ──► RUN/<name>.json {pid, started, boot} ──► stop, from this process or a later one

A pid alone may by now belong to somebody else, so the record also holds the kernel's start time of
the process and the boot it belongs to; a signal goes through a pidfd opened before that check.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.places import ClusterError


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started(pid: int) -> int | None:
    """Return the start time of a live process in ticks since boot; None for a dead one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(rest[18])


class Processes:
    """The processes recorded in one directory; logs lie beside it."""

    def __init__(self, run: Path, logs: Path) -> None:
        self.run = run
        self.logs = logs

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        netns: Path | None = None,
    ) -> None:
        """Start a process in a session of its own, its output in LOGS/<name>.log.

        It inherits what file descriptors were made inheritable.
        """
        self.run.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        # Not `ip netns exec`: that remounts /sys and hides the cgroups from kubelet.
        enter = [] if netns is None else ["nsenter", f"--net={netns}"]
        line = [*enter, *map(str, argv)]
        log = str(self.logs / f"{name}.log")
        appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        # Not Popen: it wants to be told the end of a process that may well outlive this one.
        pid = os.posix_spawnp(
            line[0],
            line,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, appended, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        record = {"pid": pid, "started": started(pid), "boot": _boot()}
        draft = self.run / f".{name}.json"
        draft.write_text(json.dumps(record))
        draft.rename(self.run / f"{name}.json")

    def names(self) -> list[str]:
        """Return every recorded name, dead or alive."""
        return sorted(path.stem for path in self.run.glob("[!.]*.json"))

    def alive(self, name: str) -> bool:
        with self._opened(name) as fd:
            return fd is not None

    def require(self, *names: str) -> None:
        """Fail with the tail of the log of the first one that is dead."""
        for name in names:
            if not self.alive(name):
                raise ClusterError(f"{name} ended early; {self.tail(name)}")

    def tail(self, name: str, lines: int = 8) -> str:
        path = self.logs / f"{name}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return f"the end of {path}:\n" + "\n".join(text.splitlines()[-lines:])

    def kill(self, name: str) -> None:
        """End one at once, as a crash would."""
        self.stop(name, grace=0)

    def stop(self, *names: str, grace: float = 2.0) -> None:
        """End these together: SIGTERM, then after `grace` seconds SIGKILL. Dead ones are fine."""
        with contextlib.ExitStack() as stack:
            found = {name: stack.enter_context(self._opened(name)) for name in names}
            fds = [fd for fd in found.values() if fd is not None]
            if grace > 0:
                _signal(fds, signal.SIGTERM)
                fds = _wait(fds, grace)
            _signal(fds, signal.SIGKILL)
            left = _wait(fds, 10.0)
            if left:
                stuck = [name for name, fd in found.items() if fd in left]
                raise ClusterError(f"{', '.join(stuck)} survived SIGKILL for 10 s")
        for name in names:
            (self.run / f"{name}.json").unlink(missing_ok=True)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """Yield a pidfd of the recorded process, or None when that very process is gone."""
        try:
            record = json.loads((self.run / f"{name}.json").read_text())
            fd = os.pidfd_open(record["pid"])
        except (FileNotFoundError, ProcessLookupError):
            yield None
            return
        try:
            now = started(record["pid"])
            same = record["boot"] == _boot() and record["started"] == now
            yield fd if same and now is not None else None
        finally:
            os.close(fd)


def _signal(fds: Sequence[int], number: signal.Signals) -> None:
    for fd in fds:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, number)


def _wait(fds: Sequence[int], seconds: float) -> list[int]:
    """Wait until they have ended; return those that have not."""
    left = list(fds)
    end = time.monotonic() + seconds
    while left and (rest := end - time.monotonic()) > 0:
        poll = select.poll()
        for fd in left:
            poll.register(fd, select.POLLIN)
        ended = {fd for fd, _ in poll.poll(rest * 1000)}
        for fd in ended:
            with contextlib.suppress(ChildProcessError):  # not every one is a child of ours
                os.waitid(os.P_PIDFD, fd, os.WEXITED)
        left = [fd for fd in left if fd not in ended]
    return left
