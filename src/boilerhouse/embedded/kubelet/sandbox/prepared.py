"""A container whose own process waits at a gate: started once, or given up.

PodSandbox.prepare ─► PreparedContainer ─► start: the gate opens
                                       └─► discard: nothing of it is left
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from boilerhouse.embedded.kubelet.container import LogSink, SandboxError
from boilerhouse.embedded.kubelet.forkserver.slots import discard
from boilerhouse.embedded.kubelet.sandbox.process import Container


class PreparedContainer:
    """A container that is all there, but for its own program: that waits at a gate."""

    def __init__(
        self,
        container: Container,
        run: Callable[[Container, LogSink], Awaitable[None]],
        used: Callable[[PreparedContainer], None],
    ) -> None:
        self._container = container
        self._run = run
        self._used = used
        self._over = False  # started or discarded: only one of the two, and once

    @property
    def stands(self) -> bool:
        """Whether it can still be started: it may have been killed meanwhile."""
        return not self._over and self._container.stands

    async def start(self, log: LogSink) -> Container:
        """Let its program go; once."""
        if not self.stands:
            raise SandboxError(f"container {self._container.spec.name} waits no longer")
        self._take()
        await self._run(self._container, log)
        return self._container

    async def discard(self) -> None:
        """End it, unless it was started. May be repeated."""
        if not self._over:
            self._take()
            await abandon(self._container)

    def _take(self) -> None:
        self._over = True
        self._used(self)


async def abandon(container: Container) -> None:
    """End a container that never ran, or could not."""
    await container.abandon()
    await discard(container.slot)
