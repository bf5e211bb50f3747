"""The sandboxed containers of a Pod, as a built-in one beside them may treat them.

agent ─► PodNeighbours ─► Container.freeze, thaw, signal        and no container starts meanwhile
                      └─► ContainerLoop.prepare_next
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence

from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop
from boilerhouse.embedded.kubelet.containers.standstill import Standstill
from boilerhouse.embedded.kubelet.sandbox.process import Container


class PodNeighbours:
    """Implements `Neighbours`. `loops` grows as containers are begun."""

    def __init__(self, loops: Sequence[ContainerLoop]) -> None:
        self.standstill = Standstill()
        self._loops = loops

    def running(self) -> Mapping[str, Container]:
        return {
            loop.facts.name: loop.launched.running
            for loop in self._loops
            if loop.launched is not None and loop.launched.running is not None
        }

    def container_id(self) -> str:
        for loop in self._loops:
            launched = loop.launched
            if launched is not None and launched.running is not None and loop.facts.role == "main":
                return launched.container_id
        return ""

    async def freeze(self, *, allow_exec: bool = False) -> None:
        try:
            await self.standstill.begin()
            for running in self.running().values():
                await running.freeze(allow_exec=allow_exec)
        except BaseException:
            await self.thaw()
            raise

    def prepare_next(self) -> None:
        for loop in self._loops:
            if loop.launched is not None and loop.launched.running is not None:
                loop.prepare_next()

    async def thaw(self) -> None:
        for loop in self._loops:
            loop.forget_next()
        for running in self.running().values():
            await asyncio.to_thread(running.thaw)
        self.standstill.end()

    async def kill(self) -> None:
        for running in self.running().values():
            if running.frozen:
                running.signal(signal.SIGKILL)
        self.standstill.end()
