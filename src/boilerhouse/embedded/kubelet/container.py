"""What the pod layer asks of the sandbox layer, and what it gets back: types only.

    Pod ─► Sandboxes.create ─► Sandbox ─► start(ContainerSpec) ─► Running ─► exec ─► ExecProcess
                                  ├─► prepare(ContainerSpec) ─► Prepared ─► start ─► Running
                                  └─► forward, connect: the way in, through the Pod's own network

A Pod has one `Sandbox` (network namespace, host uid, address); each container in it is a `Running`
with mount, process, IPC and user namespaces of its own. `sandbox.py` makes them with bubblewrap.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

Network = Literal["none", "unrestricted"]

# Where programs are looked for, in a container whose environment does not say.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# What to look at where no sandbox can be made.
NEEDS = (
    "instances need user namespaces: user.max_user_namespaces must not be 0, and where they exist"
    " kernel.unprivileged_userns_clone must be 1 and"
    " kernel.apparmor_restrict_unprivileged_userns 0; a container must be let make namespaces"
)


class SandboxError(Exception):
    """A sandbox or a container that cannot be; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the machine bound into a container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class HostRoot:
    """The machine's own programs, read-only, and nothing else of it: image `host`."""


@dataclass(frozen=True, slots=True)
class ImageRoot:
    """An OCI image's layers, lowest first, under a writable directory of the container's own.

    `upper` and `work` are created if missing, on one file system, and belong to the container.
    """

    layers: tuple[Path, ...]
    upper: Path
    work: Path


RootFs = HostRoot | ImageRoot


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    pod_uid: str
    name: str
    attempt: int
    root: RootFs
    argv: tuple[str, ...]
    # The whole environment; PATH and HOME are added only where it has none.
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    uid: int = 1000
    gid: int = 1000
    mounts: tuple[Mount, ...] = ()
    hostname: str = "localhost"
    memory_bytes: int | None = None
    cpu: float | None = None
    tty: bool = False
    stdin: bool = False
    read_only_root: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. Killed by a signal: `code` is 128 + its number, as shells count.

    `start_error` is set if the program never ran (`code` 126 or 127): missing, not executable.
    """

    code: int
    signal: int | None = None
    oom_killed: bool = False
    start_error: str | None = None


class LogSink(Protocol):
    """Where a container's output goes; called from the thread that reads the pipes."""

    def write(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take bytes as they came. Nothing is written after `close`."""
        ...

    def flush(self) -> None:
        """Show a line that was begun a while ago and has no end yet."""
        ...

    def close(self) -> None:
        """Note that the output has ended."""
        ...


class ExecProcess(Protocol):
    """A program started beside the container's own; `close` always."""

    async def write(self, data: bytes) -> None:
        """Send to standard input, waiting while it is full. After its reader is gone: no effect."""
        ...

    def close_stdin(self) -> None:
        """End standard input (on a terminal: nothing to end, so nothing happens)."""
        ...

    async def read(self, stream: Literal["stdout", "stderr"]) -> bytes:
        """Return the next bytes, b"" at the end. A terminal has only stdout."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    def signal(self, number: int) -> None: ...

    async def wait(self) -> int:
        """Return the exit code: 128 + n for a signal, 127 for a missing program, 126 for one that
        cannot be executed (the reason is then on stderr)."""
        ...

    async def close(self) -> None:
        """Kill the program if it runs, with what it started, and release its pipes.

        What is left of one that has ended stays, and ends with the container.
        """
        ...


class Running(Protocol):
    """A started container, until `wait` has returned."""

    @property
    def pid(self) -> int: ...

    @property
    def started_at(self) -> datetime: ...

    @property
    def start_error(self) -> str | None:
        """Why its program never ran, None if it did: known from the start, `wait` says it too."""
        ...

    async def wait(self) -> Exit:
        """Wait for the container's own process; what it left behind is killed by then, its output
        is in the log. May be awaited any number of times."""
        ...

    def signal(self, number: int) -> None:
        """Signal the container's own process; SIGKILL takes every process of the container."""
        ...

    def processes(self) -> list[int]:
        """Return the processes in the container, by their number on the machine."""
        ...

    async def freeze(self, *, allow_exec: bool = False) -> None:
        """Stop every process of the container; on return none runs, whatever it forked.

        Until `thaw` no program can be started in it, unless `allow_exec`: then programs may be
        started and run, and are stopped by a freeze without it. Raises `Restless` if it takes too
        long.
        """
        ...

    def thaw(self) -> None: ...

    @property
    def frozen(self) -> bool: ...

    async def write(self, data: bytes) -> None:
        """Send to the standard input of a container started with `stdin`."""
        ...

    def close_stdin(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        tty: bool = False,
        stdin: bool = False,
    ) -> ExecProcess:
        """Run a program in the container, under the same restrictions and, unless told otherwise,
        with its environment and working directory. Raises `SandboxError` if it has ended."""
        ...


class Prepared(Protocol):
    """A container that is all there, but for its own program: that waits at a gate."""

    @property
    def stands(self) -> bool:
        """Whether it can still be started: it may have been killed meanwhile."""
        ...

    async def start(self, log: LogSink) -> Running:
        """Let its program go; once."""
        ...

    async def discard(self) -> None:
        """End it, unless it was started. May be repeated."""
        ...


class Sandbox(Protocol):
    """One per Pod."""

    @property
    def address(self) -> str:
        """The Pod's own loopback address, inside and outside: 127.x.y.z."""
        ...

    @property
    def host_uid(self) -> int:
        """Who the tenant is to the kernel. Volumes must belong to this uid (see `own`)."""
        ...

    @property
    def host_gid(self) -> int: ...

    def own(self, path: Path) -> None:
        """Give a file or directory (not what is below it) to the tenant; links are not followed."""
        ...

    async def start(self, spec: ContainerSpec, log: LogSink) -> Running:
        """Start a container; on return its program runs, or `start_error` says why it does not."""
        ...

    async def prepare(self, spec: ContainerSpec) -> Prepared:
        """Do all of a start that needs nothing of what the container will find in its volumes.

        Only for what `containerspec.may_stand_by` allows.
        """
        ...

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port inside; raises OSError (ConnectionRefusedError ...) as connect does."""
        ...

    async def forward(self, ports: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Listen on the Pod's address for each port and return where; another port if taken."""
        ...

    async def close(self) -> None:
        """Kill everything in the Pod and remove what it stood on. May be repeated."""
        ...


class Sandboxes(Protocol):
    """The machine's ability to run Pods."""

    @property
    def limits_unenforced(self) -> str | None:
        """Why memory and CPU limits cannot be enforced here; None if they are."""
        ...

    @property
    def limits_enforced(self) -> str:
        """Which limits are enforced here, in words, unless `limits_unenforced`."""
        ...

    @property
    def died(self) -> asyncio.Future[None]:
        """Resolves if what runs the containers has died, and they with it; not by `close`."""
        ...

    async def create(self, pod_uid: str, *, network: Network = "none") -> Sandbox:
        """Make a Pod's network. Address and host uid are the ones it had before, if it had any.

        Raises `SandboxError` if the network asked for cannot be had.
        """
        ...

    def forget(self, pod_uid: str) -> None:
        """Free the address and host uid of a Pod that will not come back."""
        ...

    async def close(self) -> None:
        """End every sandbox."""
        ...
