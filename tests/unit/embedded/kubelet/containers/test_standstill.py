"""A tenant that is halted, in virtual time: nothing of it begins, and its next life comes at once.

The processes are a script of lives, as in test_container_loop.py, that can be frozen.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop
from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.objects.status import ContainerFacts
from boilerhouse.embedded.kubelet.pod.neighbours import PodNeighbours
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.platform.processes.freezing import Restless
from tests.unit.embedded.kubelet.containers.test_container_loop import CLOCK, Life, Play, running

pytestmark = pytest.mark.looptime


class Freezable(Play):
    """Lives that stand still, and then hear nothing but SIGKILL."""

    restless = False
    start_takes = 0.0

    async def start(self, container: Mapping[str, Any], attempt: int) -> Launched:
        await asyncio.sleep(self.start_takes)
        launched = await super().start(container, attempt)
        life = cast(Life, launched.process)

        async def freeze(*, allow_exec: bool = False) -> None:
            if self.restless:
                raise Restless("never")
            vars(life).update(frozen=True, _deaf=True, exec_allowed=allow_exec)

        vars(life).update(
            frozen=False,
            freeze=freeze,
            thaw=lambda: vars(life).update(frozen=False, _deaf=False),
        )
        return replace(launched, running=cast(Container, life))


class Pod:
    """One container with its neighbours' way to it."""

    def __init__(self, play: Freezable) -> None:
        loops: list[ContainerLoop] = []
        self.neighbours = PodNeighbours(loops)
        self.loop = ContainerLoop(
            {"name": "main"},
            ContainerFacts("main", "host", "main"),
            restart="Always",
            grace=5.0,
            start=play.start,
            clock=CLOCK,
            changed=lambda *, urgent=False: None,
            said=lambda kind, reason, message: None,
            standstill=self.neighbours.standstill,
        )
        loops.append(self.loop)


async def test_a_crashed_tenant_stays_down_while_it_is_halted(tmp_path: Path) -> None:
    """It would be started again in the middle of a save; it is, after that."""
    play = Freezable(tmp_path, (5, 1))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(12)  # crashed, started, crashed, waits for its third life
        assert play.starts == [0, 5]
        await pod.neighbours.freeze()
        await asyncio.sleep(100)
        assert play.starts == [0, 5]
        await pod.neighbours.thaw()
        await asyncio.sleep(1)
        assert play.starts == [0, 5, 112]


async def test_no_container_starts_while_only_commands_may(tmp_path: Path) -> None:
    """A tenant halted with `allow_exec` is not started again either; a save then begins as ever."""
    play = Freezable(tmp_path, (5, 1))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(1)
        await pod.neighbours.freeze(allow_exec=True)
        [life] = pod.neighbours.running().values()
        assert (life.frozen, vars(life)["exec_allowed"]) == (True, True)
        await asyncio.sleep(100)  # by then its first life has ended
        assert play.starts == [0]
        await pod.neighbours.freeze()
        await asyncio.sleep(100)
        assert play.starts == [0]
        await pod.neighbours.thaw()
        await asyncio.sleep(1)
        assert play.starts == [0, 201]


async def test_a_life_that_is_just_beginning_is_halted_too(tmp_path: Path) -> None:
    """Who is on its way is waited for, and not overlooked."""
    play = Freezable(tmp_path, (1000, 0))
    play.start_takes = 3.0
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(1)
        await pod.neighbours.freeze()
        assert CLOCK.monotonic() == pytest.approx(3)
        [life] = pod.neighbours.running().values()
        assert life.frozen


async def test_after_a_restore_the_next_life_begins_at_once(tmp_path: Path) -> None:
    """Killed, though it hears nothing else; the first restart of a container never waits."""
    play = Freezable(tmp_path, (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(7)
        assert pod.neighbours.container_id() == "id-0"
        await pod.neighbours.freeze()
        await asyncio.sleep(1)
        await pod.neighbours.kill()
        await asyncio.sleep(0.1)
        assert play.starts == [0, 8]
        assert pod.neighbours.container_id() == "id-1"
        assert pod.loop.facts.last is not None
        assert pod.loop.facts.last.signal == signal.SIGKILL
        await pod.neighbours.kill()  # who runs is left alone
        await asyncio.sleep(50)
        assert play.starts == [0, 8]


async def test_a_halted_tenant_ends_with_its_pod(tmp_path: Path) -> None:
    """Whether it runs or waits to be started, deletion does not wait for a thaw."""
    for crashed in (False, True):
        play = Freezable(tmp_path, (2, 1))
        pod = Pod(play)
        task = asyncio.create_task(pod.loop.run())
        await asyncio.sleep(5 if crashed else 1)
        await pod.neighbours.freeze()
        pod.loop.stop()
        pod.loop.kill()
        await asyncio.wait_for(task, 1)


async def test_who_cannot_be_halted_goes_on(tmp_path: Path) -> None:
    """A failure leaves nothing halted, and containers start again."""
    play = Freezable(tmp_path, (5, 1))
    play.restless = True
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(1)
        with pytest.raises(Restless):
            await pod.neighbours.freeze()
        assert not pod.neighbours.standstill.on
        await asyncio.sleep(5)
        assert play.starts == [0, 5]
