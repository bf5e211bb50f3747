"""The real world: kube-apiserver, etcd and the controllers, as processes."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cluster.api import ApiWorld
from cluster.build import API, missing
from cluster.places import Places

from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Transport
from tests.absence import absent


class RealWorld:
    """kube-apiserver, etcd and the controllers."""

    name = "real"

    def __init__(self, processes: ApiWorld) -> None:
        self._processes = processes
        self.installed: set[str] = set()

    def transport(self) -> Transport:
        return Http(from_kubeconfig(self._processes.kubeconfig))

    async def restart(self) -> None:
        await asyncio.to_thread(self._processes.kill_apiserver)
        await asyncio.to_thread(self._processes.start_apiserver)

    @asynccontextmanager
    async def without_history(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self._processes.forget_history)
        yield


def require_api_binaries() -> None:
    """Skip unless a real API server has been built."""
    if not missing(Places.user(), API):
        return
    if shutil.which("go") is None:
        absent("a real kube-apiserver needs the Go toolchain, which is not in PATH")
    absent("a real kube-apiserver must be built first: run `python -m cluster build`")


def clean(directory: Path) -> None:
    """Remove what a world wrote; keep it when asked to, for reading the logs."""
    if not os.environ.get("KEEP_WORLDS"):
        shutil.rmtree(directory, ignore_errors=True)
