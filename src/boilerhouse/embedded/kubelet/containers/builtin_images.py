"""Built-in containers: tasks of this process instead of sandboxes.

    the built-in image, args [name, …] ─► Builtins[name](Inside) ─► Builtin: start, wait, stop

They are trusted, need what only the kubelet can do (find and freeze the processes of the containers
beside them), and start in no time this way. To everybody else they are containers: with a status,
logs, probes, and a port at the Pod's address.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import Exit, LogSink
from boilerhouse.embedded.kubelet.network.forward import listen_at
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.platform.files.quota import Quota
from boilerhouse.platform.kube.kinds import ObjectMeta

log = structlog.get_logger(__name__)


class Listeners:
    """Ports of built-in containers: at the Pod's address on the machine, not in its network.

    Sandboxed containers cannot reach them, nor take them away.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.ports: dict[int, int] = {}  # asked for ─► where it listens

    def listen(self, port: int) -> socket.socket:
        """Listen on a port of the Pod, another if it is taken; who asks owns the socket."""
        made = listen_at(self.address, self.ports.get(port, port))
        self.ports[port] = made.getsockname()[1]
        return made

    async def connect(self, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            where = (self.address, self.ports.get(port, port))
            await asyncio.get_running_loop().sock_connect(made, where)
        except BaseException:
            made.close()
            raise
        return made


class Neighbours(Protocol):
    """The sandboxed containers of the Pod."""

    def running(self) -> Mapping[str, Container]:
        """Return those that run now, by name."""
        ...

    def container_id(self) -> str:
        """Return the id of the main one as the Pod's status has it, empty if none runs."""
        ...

    async def freeze(self, *, allow_exec: bool = False) -> None:
        """Halt every process; until `thaw` or `kill` no container starts and nobody enters one.

        With `allow_exec` commands may be started and run meanwhile; a freeze without it halts them.
        Raises `Restless` if it takes too long: then all run. May be repeated.
        """
        ...

    def prepare_next(self) -> None:
        """Have the next life of those that run made ready, since a kill follows, or a thaw."""
        ...

    async def thaw(self) -> None: ...

    async def kill(self) -> None:
        """Kill those that are halted, so that they start again; the others are left alone."""
        ...


@dataclass(frozen=True, slots=True)
class Inside:
    """What a built-in container has: as much as a sandboxed one would, and its neighbours."""

    pod: ObjectMeta
    container: str
    args: tuple[str, ...]  # without the first, which chose it
    env: Mapping[str, str]
    mounts: Mapping[str, Path]  # where a volume would be mounted ─► where it is
    listen: Callable[[int], socket.socket]
    neighbours: Neighbours
    log: LogSink
    clock: Clock
    # Whether the Pod stays, with its volumes, though its containers are being ended: we leave.
    pod_stays: Callable[[], bool]
    # Said when a probe would be answered otherwise than before.
    news: Callable[[], None]
    # Who the sandboxed containers' processes are (uid, gid): to the machine, and to themselves.
    outside: tuple[int, int]
    inside: tuple[int, int]
    # What sandboxed containers of images have written over them: there or not.
    writable: tuple[Path, ...] = ()
    # Of what sandboxed containers write, if the file system can limit it.
    quota: Quota | None = None


class Builtin(Protocol):
    """A task that is a container."""

    async def start(self) -> None:
        """Begin; an exception is a container that could not be started."""
        ...

    async def wait(self) -> int:
        """Return the exit code once it has ended, by itself or by `stop`."""
        ...

    async def stop(self) -> None:
        """End in good order. May be cut off."""
        ...


Factory = Callable[[Inside], Builtin]
Builtins = Mapping[str, Factory]


class BuiltinContainer:
    """A started built-in container, to the container's loop."""

    start_error = None  # what cannot begin is refused before it is one of these

    def __init__(self, builtin: Builtin, inside: Inside) -> None:
        self._builtin = builtin
        self._inside = inside
        self._stopping: asyncio.Task[None] | None = None
        self.started_at: datetime = inside.clock.now()
        self._task = asyncio.create_task(self._run(), name=f"builtin {inside.container}")

    async def _run(self) -> Exit:
        try:
            return Exit(await self._builtin.wait())
        except asyncio.CancelledError:
            return Exit(128 + signal.SIGKILL, signal.SIGKILL)
        except Exception as error:
            log.exception("builtin.failed", pod=self._inside.pod.name, name=self._inside.container)
            self._inside.log.write("stderr", f"{type(error).__name__}: {error}\n".encode())
            return Exit(1)
        finally:
            if self._stopping is not None:
                self._stopping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._stopping
            self._inside.log.close()

    async def wait(self) -> Exit:
        return await asyncio.shield(self._task)

    def signal(self, number: int) -> None:
        """SIGKILL cuts it off; any other signal asks it to stop."""
        if number == signal.SIGKILL:
            # Not before it has begun: what never began would not clean up, and listen for ever.
            asyncio.get_running_loop().call_soon(self._task.cancel)
        elif self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="builtin stop")

    async def _stop(self) -> None:
        try:
            await self._builtin.stop()
        except Exception:
            log.exception("builtin.stop_failed", name=self._inside.container)
