"""The event loop: background work that is under way steps aside for the foreground."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from boilerhouse.platform.loop.eventloop import EventLoop
from boilerhouse.platform.loop.priority import Gate

LONG = 600.0  # seconds: more than any test takes
TURNS = 100  # of the loop: whatever was due has happened by then


def run(story: Callable[[Gate], Awaitable[None]], *, held: float = LONG) -> None:
    async def begin() -> None:
        await story(Gate(longest=LONG))

    with asyncio.Runner(loop_factory=lambda: EventLoop(held=held)) as runner:
        runner.run(begin())


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Work:
    """Background work that goes on and on."""

    def __init__(self) -> None:
        self.steps = 0
        self._moved = asyncio.Event()
        self.inner: asyncio.Task[None] | None = None

    async def go_on(self) -> None:
        while True:
            self.steps += 1
            self._moved.set()
            await asyncio.sleep(0)

    async def of(self, gate: Gate, what: str) -> None:
        with gate.background(what):
            await self.go_on()

    async def begin_another(self, gate: Gate) -> None:
        with gate.background("piece"):
            self.inner = asyncio.create_task(self.go_on())
            await asyncio.sleep(0)

    async def moved(self) -> None:
        """Wait for its next step."""
        self._moved.clear()
        await self._moved.wait()

    async def moves(self) -> bool:
        before = self.steps
        await turns()
        return self.steps > before


def test_work_that_has_begun_waits_while_somebody_is_in_the_foreground() -> None:
    """It goes on when nobody is there, rests while somebody is, and goes on after that."""

    async def story(gate: Gate) -> None:
        work = Work()
        task = asyncio.create_task(work.of(gate, "piece"))
        await work.moved()
        with gate.foreground("claim"):
            assert not await work.moves()
        await work.moved()
        task.cancel()

    run(story)


def test_a_task_that_was_begun_by_such_work_waits_as_well() -> None:
    """Also after the piece itself is over: what it started is nobody's concern either."""

    async def story(gate: Gate) -> None:
        work = Work()
        await asyncio.create_task(work.begin_another(gate))
        await work.moved()
        with gate.foreground("claim"):
            assert not await work.moves()
        assert work.inner is not None
        work.inner.cancel()

    run(story)


def test_a_piece_is_over_at_its_end() -> None:
    """Who has done a piece of background work does not wait for anybody after it."""

    async def story(gate: Gate) -> None:
        work = Work()

        async def both() -> None:
            with gate.background("piece"):
                await asyncio.sleep(0)
            await work.go_on()

        task = asyncio.create_task(both())
        await work.moved()
        with gate.foreground("claim"):
            assert await work.moves()
        task.cancel()

    run(story)


def test_what_somebody_waits_for_does_not_wait() -> None:
    """A claim of a tenant that is being released finds its release going on."""

    async def story(gate: Gate) -> None:
        wanted, other = Work(), Work()
        tasks = [
            asyncio.create_task(wanted.of(gate, "a")),
            asyncio.create_task(other.of(gate, "b")),
        ]
        await turns()
        with gate.foreground("c"):
            assert not await wanted.moves()
            with gate.foreground("a"):
                await wanted.moved()
                assert not await other.moves()
        for task in tasks:
            task.cancel()

    run(story)


def test_nothing_that_has_begun_starves() -> None:
    """However long somebody is in the foreground, it goes on now and then."""

    async def story(gate: Gate) -> None:
        work = Work()
        task = asyncio.create_task(work.of(gate, "piece"))
        await turns()
        with gate.foreground("claim"):
            for _ in range(3):
                await work.moved()
        task.cancel()

    run(story, held=0.01)


def test_others_have_their_turn_between_two_slices() -> None:
    """Background work that never pauses does not keep the loop from anybody else."""

    async def story(gate: Gate) -> None:
        work = Work()
        tasks = [asyncio.create_task(work.of(gate, "piece")) for _ in range(50)]
        await turns()
        assert work.steps
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)

    run(story)


def test_a_failure_reaches_who_waits_for_it() -> None:
    """What goes wrong in background work is raised where it is awaited."""

    async def story(gate: Gate) -> None:
        async def fail() -> None:
            with gate.background("piece"):
                await asyncio.sleep(0)
                raise LookupError("lost")

        try:
            await asyncio.create_task(fail())
        except LookupError as error:
            assert str(error) == "lost"
        else:
            raise AssertionError("nobody was told")

    run(story)


def test_a_step_does_not_overtake_what_was_due_before_it() -> None:
    """Who is told of a result finds that everybody was told who asked for it earlier."""

    async def story(gate: Gate) -> None:
        work = Work()
        busy = [asyncio.create_task(work.of(gate, "piece")) for _ in range(5)]
        loop = asyncio.get_running_loop()
        told: list[bool] = []

        async def hear() -> None:
            result: asyncio.Future[None] = loop.create_future()
            earlier: list[object] = []
            result.add_done_callback(earlier.append)
            loop.call_later(0.001, result.set_result, None)
            await result
            told.append(bool(earlier))

        async def hear_often() -> None:
            with gate.background("piece"):
                for _ in range(20):
                    await hear()

        await asyncio.create_task(hear_often())
        assert all(told)
        for task in busy:
            task.cancel()

    run(story)


def test_what_is_cancelled_while_it_is_aside_is_not_called() -> None:
    """Nor is the loop told of an error: as with any handle."""
    errors: list[dict[str, object]] = []

    async def story(gate: Gate) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        other = asyncio.create_task(asyncio.sleep(LONG))
        with gate.background("piece"):
            loop.call_soon(other.cancel).cancel()
        await turns()
        assert not other.cancelled()
        other.cancel()

    run(story)
    assert errors == []
