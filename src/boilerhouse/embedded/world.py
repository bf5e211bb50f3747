"""The embedded world put together: a data directory becomes a Kubernetes API that is served.

DIR/lock, kube.db ─► Store ─► ApiServer ─┬─► InProcess (our own clients) ◄─ Kubelet ─► DIR/pods
                                         ├─► DIR/kube.sock
DIR/pki ─────────────────────────────────┴─► https://127.0.0.1:6443 ─► DIR/kubeconfig

Opened in the order in which a failure costs least: the lock first, the address last, so that
nobody finds a kubeconfig that leads to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import Clock, SystemClock
from boilerhouse.embedded.apiserver.http import kubeconfig, pki, serving
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.provision import provision
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.datadirectory import take_directory
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.embedded.kubelet.kubelet import Kubelet, Settings
from boilerhouse.embedded.kubelet.node.nodeobject import NODE
from boilerhouse.platform.files.ballast import Ballast
from boilerhouse.platform.kube.client import Client


class World:
    """Everything that `up` runs, from `open` to `close`."""

    def __init__(
        self, directory: Path, address: str, server: ApiServer, resources: AsyncExitStack
    ) -> None:
        self.directory = directory
        self.address = address
        self.socket = directory / "kube.sock"
        self.kubeconfig = directory / "kubeconfig"
        self.server = server
        self.transport = InProcess(server)
        self.kubelet: Kubelet | None = None
        self._resources = resources

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        clock: Clock | None = None,
        namespace: str = "default",
        crds: Iterable[dict[str, Any]] = (),
        kubelet: Settings | None = None,
    ) -> World:
        """Open the data directory and serve it; what was opened is closed again on failure.

        There from the start: the definitions `crds`, and `namespace`, which the kubeconfig names.
        With a kubelet, Pods run; `SandboxError` says why they cannot here.
        """
        clock = clock or SystemClock()
        take_directory(directory)
        async with AsyncExitStack() as resources:
            ballast = Ballast(directory, 0 if kubelet is None else kubelet.reserve)
            store = await Store.open(directory, make_room=ballast.make_room)
            resources.push_async_callback(store.close)
            # The directory is ours from here on. Certificates take a thread and no turn of ours.
            hosts = tuple(dict.fromkeys((*pki.LOOPBACK, host)))
            making = asyncio.create_task(
                asyncio.to_thread(pki.ensure, directory / "pki", clock, hosts)
            )
            resources.push_async_callback(_over, making)
            server = ApiServer(store, clock, (namespace,))
            await server.start()
            resources.push_async_callback(server.stop)
            await provision(InProcess(server), crds)
            running = None
            if kubelet is not None:
                client = Client(InProcess(server))
                running = await Kubelet.open(client, clock, directory, kubelet, ballast)
                resources.push_async_callback(running.close)
                server.nodes[NODE] = running.answers

            made = await making
            kept = kubeconfig.kept_port(directory / "kubeconfig")
            unix = serving.bind_unix(directory / "kube.sock")
            resources.callback(unix.close)
            tcp = serving.bind_tcp(host, port, kept)
            resources.callback(tcp.close)
            listeners = serving.Serving(server, unix, tcp, made)
            await listeners.start(clock, hosts)
            resources.push_async_callback(listeners.stop)

            address = _address(host, tcp.getsockname()[1])
            kubeconfig.write(directory / "kubeconfig", address, made.ca, made.token, namespace)
            world = cls(directory, address, server, resources.pop_all())
            world.kubelet = running
            return world
        raise AssertionError("the block returns or raises")

    async def close(self) -> None:
        """Stop serving in good order, then close the store; safe to call twice."""
        await self._resources.aclose()
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()


async def _over(task: asyncio.Task[pki.Pki]) -> None:
    """Wait until a task has ended, however: it works in the directory that is given back next."""
    await asyncio.gather(task, return_exceptions=True)


def _address(host: str, port: int) -> str:
    """Return the URL that clients on this machine use."""
    bound = ipaddress.ip_address(host)
    if bound.is_unspecified:
        host = "127.0.0.1" if bound.version == 4 else "::1"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
