"""Pods on bubblewrap: puts identity, network, cgroup, sandbox and process together.

Bubblewrapped.open ─► create ─► PodSandbox ─► start:  cgroup ─► bwrap holds the namespaces open
                                                      ─► the container's process enters them
                                          └─► prepare: the same, but the process waits at a gate
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import (
    DEFAULT_PATH,
    ContainerSpec,
    HostRoot,
    ImageRoot,
    LogSink,
    Network,
    SandboxError,
)
from boilerhouse.embedded.kubelet.forkserver import bwrap
from boilerhouse.embedded.kubelet.forkserver.client import ForkServerClient
from boilerhouse.embedded.kubelet.forkserver.slots import FIRST, CgroupSlot, SlotPool, discard
from boilerhouse.embedded.kubelet.kernel.cgroup import Groups
from boilerhouse.embedded.kubelet.kernel.stdio import End, Stdio, pipes
from boilerhouse.embedded.kubelet.logs.logpump import Output, Pump
from boilerhouse.embedded.kubelet.network.forward import Forwarder
from boilerhouse.embedded.kubelet.network.identity import Identities, Identity
from boilerhouse.embedded.kubelet.network.netns import PodNetwork
from boilerhouse.embedded.kubelet.network.uplink import NO_NAMES, Uplink
from boilerhouse.embedded.kubelet.sandbox import hostetc
from boilerhouse.embedded.kubelet.sandbox.prepared import PreparedContainer, abandon
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sandbox.socketmemory import SocketMemory

_START_SECONDS = 30.0


class Bubblewrapped:
    """The machine's ability to run Pods."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        fork_server: ForkServerClient,
        groups: Groups,
        pump: Pump,
    ) -> None:
        self.fork_server = fork_server
        self.groups = groups
        self.slots = SlotPool(fork_server, groups)
        self.socket_memory = SocketMemory(groups, self._running)
        self.pump = pump
        self.clock = clock
        self.close_userns = True
        self.etc = directory / "host-etc"
        self._identities = Identities(directory / "identities")
        self._pods: dict[str, PodSandbox] = {}

    @classmethod
    async def open(cls, directory: Path, clock: Clock) -> Bubblewrapped:
        """Make ready to run Pods, whose identities are kept in `directory`; main thread only."""
        fork_server = await ForkServerClient.start(await asyncio.to_thread(bwrap.find))
        try:
            await asyncio.to_thread(hostetc.write, directory / "host-etc")
            groups = await asyncio.to_thread(Groups.find, "boilerhouse")
            opened = cls(directory, clock, fork_server, groups, Pump(clock))
            opened.slots.fill(FIRST)
            opened.socket_memory.start()
            return opened
        except BaseException:
            await fork_server.close()
            raise

    @property
    def limits_unenforced(self) -> str | None:
        """Why memory and CPU limits cannot be enforced here; None if they are."""
        return self.groups.unenforced

    @property
    def limits_enforced(self) -> str:
        """Which limits are enforced here, in words, unless `limits_unenforced`."""
        return self.groups.enforced

    @property
    def died(self) -> asyncio.Future[None]:
        """Resolves if the fork server dies, and all containers with it."""
        return self.fork_server.died

    async def create(self, pod_uid: str, *, network: Network = "none") -> PodSandbox:
        """Make a Pod's network. Address and host uid are the ones it had before, if it had any.

        Raises `SandboxError` if the network asked for cannot be had.
        """
        if pod_uid in self._pods:
            raise SandboxError(f"Pod {pod_uid} has a sandbox already")
        identity = self._identities.take(pod_uid)
        inside = PodNetwork(self.fork_server, await self.slots.network(), identity.address)
        uplink = None
        if network == "unrestricted":
            owner = None if os.geteuid() == 0 else f"/proc/{self.fork_server.pid}/ns/user"
            try:
                uplink = await Uplink.start(inside.fd, owner)
            except BaseException:
                inside.close()
                raise
        pod = PodSandbox(self, pod_uid, identity, inside, uplink)
        self._pods[pod_uid] = pod
        return pod

    def known(self) -> set[str]:
        """Return the uids of Pods that have an address and a host uid, whether they live or not."""
        return self._identities.pods()

    def host_uid(self, pod_uid: str) -> int | None:
        """Return who a Pod is to the kernel; None if it has no identity."""
        return self._identities.take(pod_uid).uid if pod_uid in self._identities.pods() else None

    def forget(self, pod_uid: str) -> None:
        """Free the address and host uid of a Pod that will not come back."""
        if pod_uid in self._pods:
            raise SandboxError(f"Pod {pod_uid} still has a sandbox")
        self._identities.free(pod_uid)

    def closed(self, pod_uid: str) -> None:
        self._pods.pop(pod_uid, None)

    def _running(self) -> list[Container]:
        return [one for pod in self._pods.values() for one in pod.containers]

    async def close(self) -> None:
        """End every sandbox."""
        self.socket_memory.close()
        await asyncio.gather(*(pod.close() for pod in list(self._pods.values())))
        await self.slots.close()
        await self.fork_server.close()
        await asyncio.to_thread(self.pump.close)
        await asyncio.to_thread(self.groups.close)
        self._identities.close()


class PodSandbox:
    """The sandboxes of one Pod: its network, and a container each."""

    def __init__(
        self,
        parent: Bubblewrapped,
        pod_uid: str,
        identity: Identity,
        network: PodNetwork,
        uplink: Uplink | None,
    ) -> None:
        self._parent = parent
        self._pod_uid = pod_uid
        self._identity = identity
        self._network = network
        self._uplink = uplink
        self._forwarder = Forwarder(network)
        self.containers: set[Container] = set()
        self._prepared: set[PreparedContainer] = set()
        self._removing: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self._closed = False

    @property
    def address(self) -> str:
        """The Pod's own loopback address, inside and outside: 127.x.y.z."""
        return self._identity.address

    @property
    def host_uid(self) -> int:
        """Who the Pod is to the kernel. Volumes must belong to this uid (see `own`)."""
        return self._identity.uid

    @property
    def host_gid(self) -> int:
        return self._identity.gid

    def own(self, path: Path) -> None:
        """Give a file or directory (not what is below it) to the Pod; links are not followed."""
        if os.geteuid() == 0:
            os.chown(path, self.host_uid, self.host_gid, follow_symlinks=False)

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port inside; raises OSError (ConnectionRefusedError ...) as connect does."""
        return await self._network.connect(port)

    async def forward(self, ports: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Listen on the Pod's address for each port and return where; another port if taken."""
        return {port: self._forwarder.listen(port) for port in ports}

    async def start(self, spec: ContainerSpec, log: LogSink) -> Container:
        """Start a container; on return its program runs, or `start_error` says why it does not."""
        container = await self._make(spec)
        await self._run(container, log)
        return container

    async def prepare(self, spec: ContainerSpec) -> PreparedContainer:
        """Do all of a start that needs nothing of what the container will find in its volumes.

        Only for what `containerspec.may_stand_by` allows.
        """
        container = await self._make(spec)
        try:
            await container.stand()
            if self._closed:
                raise SandboxError(f"the sandbox of Pod {self._pod_uid} is closed")
        except BaseException:
            await abandon(container)
            raise
        prepared = PreparedContainer(container, self._run, self._prepared.discard)
        self._prepared.add(prepared)
        return prepared

    async def _make(self, spec: ContainerSpec) -> Container:
        """Make a container's group and namespaces, in which nothing runs yet but pid 1."""
        if self._closed:
            raise SandboxError(f"the sandbox of Pod {self._pod_uid} is closed")
        if not spec.argv:
            raise SandboxError(f"container {spec.name} has no command")
        name = f"{self._pod_uid}.{spec.name}.{next(self._numbers)}"
        slot = await self._parent.slots.take(name)
        try:
            # Limits are for what the tenant does; a sandbox may be made meanwhile.
            limiting = asyncio.create_task(
                asyncio.to_thread(slot.group.limit, spec.memory_bytes, spec.cpu)
            )
            try:
                container = await self._held(spec, slot)
            finally:
                await asyncio.wait({limiting})
            try:
                limiting.result()
            except BaseException:
                await container.abandon()
                raise
            return container
        except BaseException:
            await discard(slot)
            raise

    async def _held(self, spec: ContainerSpec, slot: CgroupSlot) -> Container:
        try:
            return await self._hold(spec, slot)
        except SandboxError as error:
            # Where /proc/sys is read-only (inside other containers) bwrap cannot forbid user
            # namespaces for good. The seccomp filter still refuses to make one.
            if "max_user_namespaces" not in str(error) or not self._parent.close_userns:
                raise
            self._parent.close_userns = False
            return await self._hold(spec, slot)

    async def _run(self, container: Container, log: LogSink) -> None:
        try:
            await container.run(_output(log), self._parent.pump, self._parent.clock)
        except BaseException:
            await abandon(container)
            raise
        self.containers.add(container)
        container.on_exit(self._ended)

    def _ended(self, container: Container) -> None:
        """Remove a container's group; beside what comes next, which has one of its own."""
        self.containers.discard(container)
        removing = asyncio.create_task(discard(container.slot), name="cgroup")
        self._removing.add(removing)
        removing.add_done_callback(self._removing.discard)

    async def _hold(self, spec: ContainerSpec, slot: CgroupSlot) -> Container:
        """Start bwrap with pid 1, and return when the namespaces stand."""
        names = NO_NAMES if self._uplink is None else self._uplink.names
        place = {
            "cgroups": [str(directory) for directory in slot.group.joined],
            "uid": self.host_uid,
            "gid": self.host_gid,
        }
        layout = bwrap.layout(
            spec,
            address=self.address,
            names=names,
            etc=self._parent.etc,
            close_userns=self._parent.close_userns,
        )
        image = None
        if isinstance(spec.root, ImageRoot):
            image = await asyncio.to_thread(self._image, spec.root)
        request = {**layout, **place, "image": image, "op": "sandbox", "seed": slot.preforked()}
        (ready, their_ready), (errors, their_errors), (info, their_info) = pipes(3)
        ends = (End(ready), End(errors), End(info))
        try:
            child = await self._parent.fork_server.start_process(
                request, (self._network.fd, their_ready, their_errors, their_info)
            )
        except BaseException:
            for end in ends:
                end.close()
            raise
        finally:
            for fd in (their_ready, their_errors, their_info):
                os.close(fd)
        try:
            init = await self._stands(spec, *ends)
            enter = {
                **place,
                "init": init,
                "bwrap": child.pid,
                "cwd": spec.workdir,
                "env": _env(spec),
            }
            return Container(spec, self._parent.fork_server, child, init, enter, slot)
        except BaseException:
            child.signal(signal.SIGKILL)
            await asyncio.shield(child.status)
            child.release()
            raise
        finally:
            for end in ends:
                end.close()

    async def _stands(self, spec: ContainerSpec, ready: End, errors: End, info: End) -> int:
        """Wait for pid 1's sign of life and return its number on the machine."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                if await ready.read():
                    told: dict[str, Any] = json.loads(await info.read())
                    return int(told["child-pid"])
                said = (await errors.read()).decode(errors="replace").strip()
        except TimeoutError:
            said = f"no answer in {_START_SECONDS:.0f} s"
        raise SandboxError(f"container {spec.name} cannot be set up: {said or 'no reason given'}")

    def _image(self, root: ImageRoot) -> dict[str, Any]:
        if root.upper.parent != root.work.parent:
            raise SandboxError("the writable layer and its work directory must be side by side")
        for directory in (root.upper, root.work):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.own(directory)
        return {
            "layers": [str(layer) for layer in root.layers],
            "writable": str(root.upper.parent),
            "upper": root.upper.name,
            "work": root.work.name,
        }

    async def close(self) -> None:
        """Kill everything in the Pod and remove what it stood on. May be repeated."""
        if self._closed:
            return
        self._closed = True
        await self._forwarder.close()
        await asyncio.gather(*(prepared.discard() for prepared in list(self._prepared)))
        for container in list(self.containers):
            container.signal(signal.SIGKILL)
        await asyncio.gather(*(container.wait() for container in list(self.containers)))
        await asyncio.sleep(0)  # their groups are being removed from now on
        await asyncio.gather(*self._removing)
        if self._uplink is not None:
            await self._uplink.close()
        self._network.close()
        self._parent.closed(self._pod_uid)


def _output(log: LogSink) -> Callable[[Stdio, Callable[[], None]], Output]:
    def output(stdio: Stdio, ended: Callable[[], None]) -> Output:
        streams = {}
        if stdio.output is not None:
            streams[stdio.output.detach()] = "stdout"
        if stdio.error is not None:
            streams[stdio.error.detach()] = "stderr"
        return Output(streams, log, ended)  # type: ignore[arg-type]  # literals widen in a dict

    return output


def _env(spec: ContainerSpec) -> dict[str, str]:
    home = "/tmp" if isinstance(spec.root, HostRoot) else "/"  # noqa: S108  inside, its own tmpfs
    return {"PATH": DEFAULT_PATH, "HOME": home, **spec.env}
