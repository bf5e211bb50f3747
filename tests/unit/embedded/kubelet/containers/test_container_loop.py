"""A container through its lives, in virtual time: restarts, pauses, ends.

What starts it is a port of the loop; here it is a script of lives.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.container import Exit
from boilerhouse.embedded.kubelet.containers.checks import Subject
from boilerhouse.embedded.kubelet.containers.containerloop import ContainerLoop
from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.logs.attaching import Tapped
from boilerhouse.embedded.kubelet.logs.log import LogFile
from boilerhouse.embedded.kubelet.objects.containerspec import Refused
from boilerhouse.embedded.kubelet.objects.status import ContainerFacts, Role, Terminated, Waiting

pytestmark = pytest.mark.looptime

START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """The event loop's time as a clock."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


CLOCK = LoopClock()


class Life:
    """A process that ends by itself after a while, or by a signal (`deaf` ones only by SIGKILL)."""

    def __init__(self, seconds: float, code: int, deaf: bool, start_error: str | None) -> None:
        self.started_at = CLOCK.now()
        self.start_error = start_error
        self._deaf = deaf
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(
            seconds, self._end, Exit(code, start_error=start_error)
        )

    def _end(self, exited: Exit) -> None:
        if not self._exit.done():
            self._exit.set_result(exited)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL or not self._deaf:
            self._end(Exit(128 + number, number))


class Play:
    """Runs a loop; each life takes (seconds, exit code) from the script, the last one again."""

    def __init__(
        self,
        directory: Path,
        *lives: tuple[float, int],
        deaf: bool = False,
        start_error: str | None = None,
    ) -> None:
        self.starts: list[float] = []
        self.said: list[str] = []
        self.states: list[str] = []
        self.ready: list[bool] = []
        self.refusals: list[Refused] = []
        self._lives = lives
        self._deaf = deaf
        self._start_error = start_error
        self._directory = directory

    async def start(self, container: Mapping[str, Any], attempt: int) -> Launched:
        if self.refusals:
            raise self.refusals.pop(0)
        self.starts.append(round(CLOCK.monotonic(), 3))
        seconds, code = self._lives[min(len(self.starts), len(self._lives)) - 1]
        life = Life(seconds, code, self._deaf, self._start_error)
        file = LogFile(self._directory / f"{attempt}.log", CLOCK)
        file.close()

        async def connect(port: int) -> Any:
            raise ConnectionRefusedError(f"port {port}")

        subject = Subject("127.16.0.1", connect, {}, None)
        return Launched(life, None, subject, Tapped(file), "host", f"id-{attempt}", signal.SIGTERM)

    def loop(self, restart: str = "Always", role: Role = "main", **container: Any) -> ContainerLoop:
        facts = ContainerFacts("main", "host", role)

        def changed(*, urgent: bool = False) -> None:
            del urgent
            state = facts.state
            self.ready.append(facts.ready or facts.started)
            self.states.append(getattr(state, "reason", type(state).__name__))

        return ContainerLoop(
            {"name": "main", **container},
            facts,
            restart=restart,
            grace=5.0,
            start=self.start,
            clock=CLOCK,
            changed=changed,
            said=lambda kind, reason, message: self.said.append(reason),
        )


@asynccontextmanager
async def running(loop: ContainerLoop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    yield task
    loop.kill()
    await task


async def test_restarts_back_off(tmp_path: Path) -> None:
    """At once, then after 10, 20, 40 seconds; the count and the last state tell of it."""
    play = Play(tmp_path, (1, 3))
    loop = play.loop()
    async with running(loop):
        await asyncio.sleep(80)
        assert play.starts == [0, 1, 12, 33, 74]
        assert loop.facts.restart_count == 4
        assert isinstance(loop.facts.state, Waiting)
        assert loop.facts.state.message.startswith("back-off 80s")
        assert loop.facts.last is not None
        assert (loop.facts.last.exit_code, loop.facts.last.container_id) == (3, "id-4")
    assert "BackOff" in play.said


async def test_a_long_life_starts_over(tmp_path: Path) -> None:
    """After ten minutes of running the next restart is immediate again."""
    play = Play(tmp_path, (1, 1), (1, 1), (700, 1), (50, 1))
    async with running(play.loop()):
        await asyncio.sleep(740)
    assert play.starts == [0, 1, 12, 712]


@pytest.mark.parametrize(
    ("policy", "code", "starts"),
    [("Never", 1, 1), ("Never", 0, 1), ("OnFailure", 0, 1), ("OnFailure", 1, 2), ("Always", 0, 2)],
)
async def test_restart_policies(tmp_path: Path, policy: str, code: int, starts: int) -> None:
    """Who is started again depends on the policy and on how it ended."""
    play = Play(tmp_path, (1, code))
    loop = play.loop(policy)
    async with running(loop):
        await asyncio.sleep(5)
        assert len(play.starts) == starts
        assert loop.facts.finished == (starts == 1)


async def test_a_missing_image_is_waited_for(tmp_path: Path) -> None:
    """First why, then the back-off, then it starts; the wait does not count as a restart."""
    play = Play(tmp_path, (1000, 0))
    play.refusals = [Refused("ErrImagePull", "image is not here")] * 2
    loop = play.loop()
    async with running(loop):
        await asyncio.sleep(0.5)
        assert loop.facts.state == Waiting("ErrImagePull", "image is not here")
        await asyncio.sleep(1)
        assert isinstance(loop.facts.state, Waiting)
        assert loop.facts.state.reason == "ImagePullBackOff"
        await asyncio.sleep(60)
        assert play.starts == [30]
        assert loop.facts.restart_count == 0


async def test_stop_is_asked_and_kill_is_not(tmp_path: Path) -> None:
    """Stopping signals and does not restart; one that does not listen needs the kill."""
    polite = Play(tmp_path, (1000, 0))
    loop = polite.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(1)
    loop.stop()
    await task
    assert isinstance(loop.facts.state, Terminated)
    assert loop.facts.state.exit_code == 143
    assert len(polite.starts) == 1
    deaf = Play(tmp_path, (1000, 0), deaf=True)
    loop = deaf.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(1)
    loop.stop()
    await asyncio.sleep(50)
    assert not task.done()
    loop.kill()
    await task


async def test_stop_while_it_backs_off(tmp_path: Path) -> None:
    """Nobody waits for the pause to be over."""
    play = Play(tmp_path, (1, 1))
    loop = play.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(5)
    loop.stop()
    await task
    assert CLOCK.monotonic() < 6


async def test_another_image_begins_another_life(tmp_path: Path) -> None:
    """Whatever the policy and without a pause: a life of the old one ends, a wait is over."""
    play = Play(tmp_path, (1000, 0))
    loop = play.loop("Never", image="old")
    async with running(loop):
        await asyncio.sleep(5)
        loop.replace({"name": "main", "image": "new"})
        await asyncio.sleep(1)
        assert play.starts == [0, 5]
        assert (loop.facts.image, loop.facts.restart_count) == ("new", 1)
    waiting = Play(tmp_path, (1000, 0))
    waiting.refusals = [Refused("ErrImagePull", "not here")]
    loop = waiting.loop(image="typo")
    async with running(loop):
        await asyncio.sleep(3)
        loop.replace({"name": "main", "image": "right"})
        await asyncio.sleep(1)
        assert len(waiting.starts) == 1


async def test_a_failed_startup_probe_ends_a_life(tmp_path: Path) -> None:
    """After the threshold it is asked to end, then killed, and its restart policy applies."""
    play = Play(tmp_path, (1000, 0), deaf=True)
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 3}
    loop = play.loop(startupProbe=probe)
    async with running(loop):
        await asyncio.sleep(9)
        assert len(play.starts) == 2
        assert play.starts[1] == pytest.approx(7, abs=0.5)
        assert not loop.started.is_set()
        assert "Unhealthy" in play.said


async def test_without_probes_it_is_ready_at_once(tmp_path: Path) -> None:
    """Started and ready as soon as it runs, and neither when it has ended."""
    play = Play(tmp_path, (1, 0))
    loop = play.loop("Never")
    async with running(loop):
        await asyncio.sleep(0.5)
        assert loop.facts.ready
        assert loop.started.is_set()
        await asyncio.sleep(1)
        assert not loop.facts.ready


async def test_what_was_never_executed_never_runs(tmp_path: Path) -> None:
    """Neither running, started nor ready at any time, however long its end takes; it says why."""
    play = Play(tmp_path, (1, 127), start_error="/no/such/program: not found")
    loop = play.loop()
    async with running(loop):
        await asyncio.sleep(5)
        assert set(play.states) == {"ContainerCreating", "StartError", "CrashLoopBackOff"}
        assert not any(play.ready)
        assert not loop.started.is_set()
        assert isinstance(loop.facts.state, Waiting)
        words = "back-off 10s restarting failed container=main: /no/such/program: not found"
        assert loop.facts.state.message == words
        assert "Failed" in play.said
