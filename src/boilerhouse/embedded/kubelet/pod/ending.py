"""How the containers of a Pod are ended: asked, given time, killed.

    deletion, force, our own leaving ─► Ending.ask(grace) ─► main containers ─► sidecars in reverse

The time may become shorter while it runs (a second, forced deletion), never longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop

_SIDECAR_SECONDS = 2.0  # for a sidecar whose Pod's time is up, unless the Pod is forced to go

Loops = Mapping[ContainerLoop, "asyncio.Task[None]"]  # in the order in which they were begun


class Ending:
    """The end of one Pod, once it is asked for."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._hurry = asyncio.Event()
        self._deadline = float("inf")
        self._forced = False

    def ask(self, grace: float) -> None:
        """Let it end within so many seconds; none at all is force."""
        deadline = asyncio.get_running_loop().time() + grace
        self._forced = self._forced or grace == 0
        if deadline < self._deadline:
            self._deadline = deadline
            self._hurry.set()
        self.asked.set()

    async def stop(self, loops: Loops, grace: float) -> None:
        """End everything that runs, the sidecars after the others; `grace` if nobody asked."""
        if self._deadline == float("inf"):
            self._deadline = asyncio.get_running_loop().time() + grace
        main = {loop: task for loop, task in loops.items() if loop.facts.role != "sidecar"}
        await self._stop(main, 0.0)
        for loop, task in reversed(list(loops.items())):
            if loop.facts.role == "sidecar":
                await self._stop({loop: task}, _SIDECAR_SECONDS)

    async def _stop(self, loops: Loops, least: float) -> None:
        time = asyncio.get_running_loop().time
        earliest = time() + least
        pending = {task for task in loops.values() if not task.done()}
        for loop in loops:
            loop.stop()
        while pending:
            deadline = self._deadline if self._forced else max(self._deadline, earliest)
            if time() >= deadline:
                break
            self._hurry.clear()
            hurry = asyncio.create_task(self._hurry.wait())
            _, left = await asyncio.wait(
                {*pending, hurry},
                timeout=deadline - time(),
                return_when=asyncio.FIRST_COMPLETED,
            )
            hurry.cancel()
            pending &= left
        for loop in loops:
            loop.kill()
        if pending:
            await asyncio.wait(pending)
