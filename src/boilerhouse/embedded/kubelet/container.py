"""What a container is to be, and how it ended: the words between the pod and the sandbox layer.

    Bubblewrapped.create ─► PodSandbox ─► start(ContainerSpec) ─► Container ─► exec ─► Program
                               ├─► prepare(ContainerSpec) ─► PreparedContainer ─► start ─► Container
                               └─► forward, connect: the way in, through the Pod's own network

A Pod has one `PodSandbox` (network namespace, host uid, address); each `Container` in it has mount,
process, IPC and user namespaces of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
