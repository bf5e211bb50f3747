"""Starting one container of a Pod: everything between its description and a running process.

    container ─► image ─► variables ─► mounts ─► log ─► sandbox | built in ─► Launched
                                              └─► prepare: sandbox, and later the log

Whatever is missing is `Refused` with the reason and the words of a waiting container; the loop of
the container tries again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import ContainerSpec, Exit, SandboxError
from boilerhouse.embedded.kubelet.containers.builtin_images import (
    BuiltinContainer,
    Builtins,
    Inside,
    Listeners,
    Neighbours,
)
from boilerhouse.embedded.kubelet.containers.checks import Subject
from boilerhouse.embedded.kubelet.images.imageconfig import resolve_user
from boilerhouse.embedded.kubelet.images.images import HOST, Image, ImageStore, normal
from boilerhouse.embedded.kubelet.logs.attaching import Tapped
from boilerhouse.embedded.kubelet.logs.log import LogFile
from boilerhouse.embedded.kubelet.objects import containerspec
from boilerhouse.embedded.kubelet.objects.containerspec import Refused, Wanted
from boilerhouse.embedded.kubelet.objects.environment import PodView, environment, expand
from boilerhouse.embedded.kubelet.objects.references import Missing, References
from boilerhouse.embedded.kubelet.sandbox.prepared import PreparedContainer
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sandbox.sandbox import PodSandbox
from boilerhouse.embedded.kubelet.volumes import volumes
from boilerhouse.embedded.kubelet.volumes.quotas import PodQuota
from boilerhouse.embedded.kubelet.volumes.volumes import Volume

Body = Mapping[str, Any]


class Process(Protocol):
    """What a container's loop needs of what runs; `Running` and `BuiltinContainer` are both."""

    @property
    def started_at(self) -> datetime: ...

    @property
    def start_error(self) -> str | None: ...

    async def wait(self) -> Exit: ...

    def signal(self, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Launched:
    """A container that runs."""

    process: Process
    running: Container | None  # None if built in
    subject: Subject
    log: Tapped
    image_id: str
    container_id: str
    stop_signal: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What all Pods have in common."""

    clock: Clock
    images: ImageStore
    builtins: Builtins
    builtin_image: str
    host_ip: str

    def built_in(self, container: Body) -> str | None:
        """Return which of the built-in containers this is, if it is one."""
        if normal(container.get("image", "")) != normal(self.builtin_image):
            return None
        words = [*container.get("command", ()), *container.get("args", ())]
        return words[0] if words else ""


class ReadyContainer:
    """A container that waits to be let go; implements `standby.Ready`."""

    def __init__(
        self, prepared: PreparedContainer, begin: Callable[[], Awaitable[Launched]]
    ) -> None:
        self._prepared = prepared
        self._begin = begin

    @property
    def stands(self) -> bool:
        return self._prepared.stands

    async def start(self) -> Launched:
        return await self._begin()

    async def discard(self) -> None:
        await self._prepared.discard()


class Launcher:
    """Starts the containers of one Pod, whose sandbox and volumes stand."""

    def __init__(
        self,
        machine: Machine,
        pod: PodView,
        directory: Path,
        sandbox: PodSandbox,
        ready: Mapping[str, Volume],
        references: References,
        neighbours: Neighbours,
        pod_stays: Callable[[], bool],
        quota: PodQuota | None = None,
    ) -> None:
        self._machine = machine
        self._quota = quota
        self._pod = pod
        self._directory = directory
        self._sandbox = sandbox
        self._volumes = ready
        self._references = references
        self.listeners = Listeners(sandbox.address)
        self._neighbours = neighbours
        self._pod_stays = pod_stays

    async def start(self, container: Body, attempt: int) -> Launched:
        """Start a container; raises `Refused`."""
        built_in = self._machine.built_in(container)
        if built_in is not None:
            return await self._start_built_in(container, attempt, built_in)
        image, spec = await self._described(container, attempt)

        async def run(log: Tapped) -> Container:
            async with self._room():
                return await self._sandbox.start(spec, log)

        return await self._begin(container, attempt, image, run)

    async def prepare(self, container: Body, attempt: int) -> ReadyContainer | None:
        """Do what can be done of a start before it is time; None if that is nothing.

        Raises `Refused`. Until it is started it leaves no trace: a life that never began is none.
        """
        if self._machine.built_in(container) is not None:
            return None
        image, spec = await self._described(container, attempt)
        if not containerspec.may_stand_by(spec, container):
            return None
        try:
            async with self._room():
                prepared = await self._sandbox.prepare(spec)
        except SandboxError as error:
            raise Refused("CreateContainerError", str(error)) from error
        return ReadyContainer(
            prepared, lambda: self._begin(container, attempt, image, prepared.start)
        )

    def _room(self) -> AbstractAsyncContextManager[None]:
        """Have room for what a sandbox needs to be made, also in an instance that is full."""
        return contextlib.nullcontext() if self._quota is None else self._quota.room_to_start()

    async def _described(self, container: Body, attempt: int) -> tuple[Image | None, ContainerSpec]:
        image = await self._image(container)
        config = {} if image is None else dict(image.config.env)
        variables = await self._variables(container, config)
        found = (container, self._volumes, self._sandbox.own)
        if volumes.has_parts(container):
            mounts = await asyncio.to_thread(volumes.mounts, *found)
        else:
            mounts = volumes.mounts(*found)
        spec = containerspec.build(
            Wanted(
                self._pod.metadata,
                self._pod.spec,
                container,
                attempt,
                image,
                await self._user(image),
                variables,
                mounts,
                containerspec.root_of(self._directory, container["name"]),
            )
        )
        return image, spec

    async def _begin(
        self,
        container: Body,
        attempt: int,
        image: Image | None,
        run: Callable[[Tapped], Awaitable[Container]],
    ) -> Launched:
        """Give a container its log and let it run."""
        log = await self._log(container["name"], attempt)
        try:
            running = await run(log)
        except BaseException as error:
            log.close()
            if isinstance(error, SandboxError):
                raise Refused("CreateContainerError", str(error)) from error
            raise
        return Launched(
            running,
            running,
            self._subject(container, self._sandbox.connect, running),
            log,
            HOST if image is None else image.digest,
            self._id(container, attempt),
            _stop_signal(image),
        )

    async def _image(self, container: Body) -> Image | None:
        reference = container.get("image", "")
        if reference == HOST:
            return None
        image = await asyncio.to_thread(self._machine.images.get, reference)
        name = f"{self._pod.metadata.namespace}/{self._pod.metadata.name}/{container['name']}"
        if image is None or not self._machine.images.hold(image, name):
            if container.get("imagePullPolicy") == "Never":
                words = f'Container image "{reference}" is not present with pull policy of Never'
                raise Refused("ErrImageNeverPull", words)
            raise Refused(
                "ErrImagePull",
                f'image "{reference}" is not in the local store, and registries are not asked: '
                "import it",
            )
        return image

    async def _user(self, image: Image | None) -> tuple[int, int]:
        if image is None:
            return containerspec.HOST_USER
        try:
            return await asyncio.to_thread(resolve_user, image.config.user, image.layers)
        except SandboxError as error:
            raise Refused("CreateContainerConfigError", str(error)) from error

    async def _sandboxed_user(self) -> tuple[int, int]:
        """Return who the first sandboxed container is, inside, as far as that is known by now."""
        spec = self._pod.spec
        for container in spec.get("containers", ()):
            if self._machine.built_in(container) is None:
                reference = container.get("image", "")
                image = None
                if reference != HOST:
                    image = await asyncio.to_thread(self._machine.images.get, reference)
                with contextlib.suppress(Refused):  # which that container will be, and say so
                    return containerspec.user(spec, container, await self._user(image))
        return containerspec.HOST_USER

    async def _variables(self, container: Body, image: Mapping[str, str]) -> dict[str, str]:
        try:
            return await environment(container, self._pod, self._references, image)
        except Missing as missing:
            raise Refused("CreateContainerConfigError", str(missing)) from missing

    async def _start_built_in(self, container: Body, attempt: int, name: str) -> Launched:
        factory = self._machine.builtins.get(name)
        if factory is None:
            known = ", ".join(sorted(self._machine.builtins)) or "nothing"
            raise Refused(
                "CreateContainerError",
                f"image {self._machine.builtin_image} runs {known} here, not {name!r}",
            )
        variables = await self._variables(container, {})
        words = [*container.get("command", ()), *container.get("args", ())]
        log = await self._log(container["name"], attempt)
        news = asyncio.Event()
        inside = Inside(
            self._pod.metadata,
            container["name"],
            tuple(expand(word, variables) for word in words[1:]),
            variables,
            {
                mount["mountPath"]: self._volumes[mount["name"]].path
                for mount in volumes.mounts_of(container)
            },
            self.listeners.listen,
            self._neighbours,
            log,
            self._machine.clock,
            self._pod_stays,
            news.set,
            (self._sandbox.host_uid, self._sandbox.host_gid),
            await self._sandboxed_user(),
            tuple(
                containerspec.root_of(self._directory, one["name"]) / "upper"
                for one in self._pod.spec.get("containers", ())
            ),
            self._quota,
        )
        try:
            builtin = factory(inside)
            await builtin.start()
        except Exception as error:
            log.close()
            raise Refused("CreateContainerError", f"{name}: {error}") from error
        started = BuiltinContainer(builtin, inside)
        return Launched(
            started,
            None,
            self._subject(container, self.listeners.connect, None, news),
            log,
            self._machine.builtin_image,
            self._id(container, attempt),
            signal.SIGTERM,
        )

    def _subject(
        self,
        container: Body,
        connect: Callable[[int], Awaitable[socket.socket]],
        running: Container | None,
        news: asyncio.Event | None = None,
    ) -> Subject:
        ports = {
            port["name"]: port["containerPort"]
            for port in container.get("ports", ())
            if port.get("name")
        }
        return Subject(self._sandbox.address, connect, ports, running, news)

    def _id(self, container: Body, attempt: int) -> str:
        parts = f"{self._pod.metadata.uid}/{container['name']}/{attempt}"
        return "boilerhouse://" + hashlib.sha256(parts.encode()).hexdigest()

    async def _log(self, name: str, attempt: int) -> Tapped:
        log = Tapped(LogFile(log_path(self._directory, name, attempt), self._machine.clock))
        if attempt > 1:
            await asyncio.to_thread(_drop_old_logs, self._directory, name, attempt)
        return log


def log_path(directory: Path, container: str, attempt: int) -> Path:
    """Return where the log of one life of a container is."""
    return directory / "logs" / container / f"{attempt}.log"


def last_attempt(directory: Path, container: str) -> int | None:
    """Return the number of the container's last life that left a log; None if it never lived."""
    try:
        names = [entry.name for entry in (directory / "logs" / container).iterdir()]
    except FileNotFoundError:
        return None
    numbers = [int(name.partition(".")[0]) for name in names if name[:1].isdecimal()]
    return max(numbers, default=None)


def _drop_old_logs(directory: Path, container: str, attempt: int) -> None:
    """Keep the log of this life and of the one before."""
    for entry in (directory / "logs" / container).iterdir():
        number = entry.name.partition(".")[0]
        if number.isdecimal() and int(number) < attempt - 1:
            entry.unlink(missing_ok=True)


def _stop_signal(image: Image | None) -> int:
    wanted = None if image is None else image.config.stop_signal
    if not wanted:
        return signal.SIGTERM
    if wanted.isdecimal():
        return int(wanted)
    name = wanted.upper() if wanted.upper().startswith("SIG") else f"SIG{wanted.upper()}"
    found = signal.Signals.__members__.get(name)
    return signal.SIGTERM if found is None else int(found)
