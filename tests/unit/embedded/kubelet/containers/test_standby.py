"""The next life of a container made ready beside the one that is, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop
from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.objects.containerspec import Refused
from boilerhouse.embedded.kubelet.objects.status import ContainerFacts, Running
from boilerhouse.embedded.kubelet.pod.neighbours import PodNeighbours
from tests.unit.embedded.kubelet.containers.test_container_loop import CLOCK, running
from tests.unit.embedded.kubelet.containers.test_standstill import Freezable

pytestmark = pytest.mark.looptime


class Waiting:
    """A life at its gate."""

    def __init__(self, play: Prepared, container: Mapping[str, Any], attempt: int) -> None:
        self._play = play
        self._life = container, attempt
        self.stands = True

    async def start(self) -> Launched:
        self.stands = False
        self._play.let_go.append(self._life[1])
        return await self._play.begin(*self._life)

    async def discard(self) -> None:
        if self.stands:
            self.stands = False
            self._play.discarded.append(self._life[1])


class Prepared(Freezable):
    """Lives of which the next can be made ready, which takes 5 seconds; a start takes 60."""

    start_takes = 60.0
    refuses = False

    def __init__(self, directory: Path, *lives: tuple[float, int]) -> None:
        super().__init__(directory, *lives)
        self.let_go: list[int] = []
        self.discarded: list[int] = []
        self.waiting: list[Waiting] = []

    async def prepare(self, container: Mapping[str, Any], attempt: int) -> Waiting | None:
        await asyncio.sleep(5)
        if self.refuses:
            raise Refused("CreateContainerError", "not now")
        self.waiting.append(Waiting(self, container, attempt))
        return self.waiting[-1]

    async def begin(self, container: Mapping[str, Any], attempt: int) -> Launched:
        takes, self.start_takes = self.start_takes, 0.0
        try:
            return await self.start(container, attempt)
        finally:
            self.start_takes = takes


class Pod:
    """One container that has run for 40 seconds; `urgent` are the states told of at once."""

    def __init__(self, play: Prepared, **container: Any) -> None:
        loops: list[ContainerLoop] = []
        self.urgent: list[str] = []
        self.neighbours = PodNeighbours(loops)
        self.facts = ContainerFacts("main", "host", "main")
        self.loop = ContainerLoop(
            {"name": "main", "image": "host", **container},
            self.facts,
            restart="Always",
            grace=5.0,
            start=play.start,
            clock=CLOCK,
            changed=self._changed,
            said=lambda kind, reason, message: None,
            standstill=self.neighbours.standstill,
            prepare=play.prepare,
        )
        loops.append(self.loop)

    def _changed(self, *, urgent: bool = False) -> None:
        if urgent:
            self.urgent.append(type(self.facts.state).__name__)

    async def restore(self, takes: float) -> None:
        """Halt it, and kill it after so many seconds."""
        self.neighbours.prepare_next()
        await self.neighbours.freeze()
        await asyncio.sleep(takes)
        await self.neighbours.kill()


async def test_what_stands_by_is_let_go_after_the_kill(tmp_path: Path) -> None:
    """Its life begins when the other has ended, without a start; that is told once, with it."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        pod.urgent.clear()
        await pod.restore(takes=10)
        assert play.let_go == []
        await asyncio.sleep(0.1)
        assert (play.starts, play.let_go) == ([60, 110], [1])
        assert pod.neighbours.container_id() == "id-1"
        assert pod.facts.restart_count == 1
        assert isinstance(pod.facts.state, Running) and pod.facts.last is not None
        assert pod.urgent == ["Running"]
    assert play.discarded == []


async def test_nothing_stands_by_before_it_is_asked_for(tmp_path: Path) -> None:
    """A container that merely crashes is started as ever, and its end is told at once."""
    play = Prepared(tmp_path, (30, 1), (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(200)
    assert (play.starts, play.waiting) == ([60, 150], [])
    assert "Terminated" in pod.urgent


async def test_one_that_is_not_ready_yet_is_waited_for(tmp_path: Path) -> None:
    """It is further than a start that begins now."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        await pod.restore(takes=1)
        await asyncio.sleep(10)
        assert (play.starts, play.let_go) == ([60, 105], [1])


@pytest.mark.parametrize("why", ["refused", "killed"])
async def test_without_one_that_stands_it_starts_as_ever(tmp_path: Path, why: str) -> None:
    """What could not be made ready, or was killed at its gate, holds nobody up."""
    play = Prepared(tmp_path, (1000, 0))
    play.refuses = why == "refused"
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        pod.neighbours.prepare_next()
        await pod.neighbours.freeze()
        await asyncio.sleep(10)
        for waiting in play.waiting:
            waiting.stands = False
        await pod.neighbours.kill()
        await asyncio.sleep(100)
        assert (play.starts, play.let_go) == ([60, 170], [])


async def test_a_restore_that_is_tried_again_finds_it_standing(tmp_path: Path) -> None:
    """The tenant is still halted, so it is still the next life; none is made a second time."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        pod.neighbours.prepare_next()
        await pod.neighbours.freeze()
        await asyncio.sleep(50)
        await pod.restore(takes=1)
        await asyncio.sleep(0.1)
        assert (len(play.waiting), play.let_go) == (1, [1])


async def test_a_tenant_that_goes_on_has_no_next_life(tmp_path: Path) -> None:
    """After a thaw what stood by is gone, made or not; a later crash is a start as ever."""
    play = Prepared(tmp_path, (150, 1))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        for seconds in (1, 10):
            pod.neighbours.prepare_next()
            await pod.neighbours.freeze()
            await asyncio.sleep(seconds)
            await pod.neighbours.thaw()
            await asyncio.sleep(0.1)
        assert play.discarded == [1]
        await asyncio.sleep(300)
        assert (play.starts[1], play.let_go) == (270, [])


async def test_what_stands_by_ends_with_its_container(tmp_path: Path) -> None:
    """A Pod that goes leaves nothing behind at a gate."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    task = asyncio.create_task(pod.loop.run())
    await asyncio.sleep(100)
    pod.neighbours.prepare_next()
    await asyncio.sleep(10)
    pod.loop.kill()
    await task
    await pod.loop.close()
    assert (play.let_go, play.discarded) == ([], [1])
    pod.neighbours.prepare_next()
    pod.loop.prepare_next()
    await asyncio.sleep(10)
    assert len(play.waiting) == 1


async def test_another_image_is_another_life(tmp_path: Path) -> None:
    """What was made ready of the old one is not begun."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    async with running(pod.loop):
        await asyncio.sleep(100)
        pod.neighbours.prepare_next()
        await asyncio.sleep(10)
        pod.loop.replace({"name": "main", "image": "other"})
        await asyncio.sleep(100)
        assert (play.let_go, play.discarded) == ([], [1])
        assert len(play.starts) == 2


async def test_the_first_life_can_be_made_ready_too(tmp_path: Path) -> None:
    """It is let go when the container is begun."""
    play = Prepared(tmp_path, (1000, 0))
    pod = Pod(play)
    pod.loop.prepare_next()
    await asyncio.sleep(20)
    async with running(pod.loop):
        await asyncio.sleep(0.1)
        assert (play.starts, play.let_go, pod.facts.restart_count) == ([20], [0], 0)


async def test_who_runs_and_has_not_started_is_told_of_at_once(tmp_path: Path) -> None:
    """An agent waits for files that nobody brings before it is seen to run."""
    play = Prepared(tmp_path, (1000, 0))
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1000}
    pod = Pod(play, startupProbe=probe)
    async with running(pod.loop):
        await asyncio.sleep(60.1)
        assert (pod.urgent, pod.facts.started) == (["Running"], False)
