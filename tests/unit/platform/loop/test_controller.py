"""The controller: outcomes of a pass, one worker per key, inline passes, resync, orderly stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from boilerhouse.core.clock import SystemClock, new_rng
from boilerhouse.core.errors import Retry, Terminal
from boilerhouse.platform.kube.status import Conflict, TooManyRequests
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import BACKGROUND, DEFERRED, NORMAL, PATIENCE, Gate
from boilerhouse.platform.loop.recorder import Recorder

pytestmark = pytest.mark.looptime

Apply = Callable[[str, str, str], Awaitable[timedelta | None]]


async def nothing(key: str, seen: str, plan: str) -> timedelta | None:
    return None


def controller(
    apply: Apply = nothing,
    *,
    keys: tuple[str, ...] = (),
    recorder: Recorder | None = None,
    workers: int = 4,
    resync: timedelta = timedelta(hours=10),
    name: str = "test",
) -> Controller[str, str, str]:
    async def read(key: str) -> str | None:
        return None if key.startswith("gone") else f"seen {key}"

    return Controller(
        name,
        read=read,
        decide=lambda seen: f"plan for {seen}",
        apply=apply,
        keys=lambda: keys,
        clock=SystemClock(),
        rng=new_rng(1),
        recorder=recorder or Recorder(),
        workers=workers,
        resync=resync,
    )


@asynccontextmanager
async def running(
    subject: Controller[str, str, str], grace: timedelta = timedelta(seconds=30)
) -> AsyncIterator[asyncio.Event]:
    stopping = asyncio.Event()
    task = asyncio.create_task(subject.run(stopping, grace))
    await asyncio.sleep(0)
    try:
        yield stopping
    finally:
        stopping.set()
        await task


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_every_known_key_gets_a_pass_at_the_start() -> None:
    """A controller begins with everything there is: no event is needed for what exists."""
    seen = []

    async def apply(key: str, saw: str, plan: str) -> None:
        seen.append((key, saw, plan))

    async with running(controller(apply, keys=("a", "b"))):
        await asyncio.sleep(0.1)
    assert seen == [("a", "seen a", "plan for seen a"), ("b", "seen b", "plan for seen b")]


async def test_an_object_that_is_gone_is_not_decided_on() -> None:
    """`read` says None: no plan, no error, no requeue."""
    subject = controller(keys=("gone",))
    async with running(subject):
        await asyncio.sleep(1)
        assert (len(subject.queue), subject.queue.delayed) == (0, 0)


async def test_again_in_brings_the_key_back_after_that_delay() -> None:
    """A pass that waits for a deadline asks for it instead of sleeping."""
    times = []

    async def apply(key: str, saw: str, plan: str) -> timedelta | None:
        times.append(now())
        return timedelta(minutes=5) if len(times) < 3 else None

    async with running(controller(apply, keys=("a",))):
        await asyncio.sleep(3600)
    assert [round(t - times[0]) for t in times] == [0, 300, 600]


@pytest.mark.parametrize(
    ("error", "passes", "at_least"),
    [
        (Retry("not yet"), 2, 0.02),
        (Retry("not yet", after=timedelta(seconds=7)), 2, 7.0),
        (Conflict("changed"), 2, 0.02),
        (TooManyRequests("slow down", retry_after=9), 2, 9.0),
        (ValueError("a bug"), 2, 0.02),
        (Terminal("no such image"), 1, 0.0),
    ],
)
async def test_what_an_error_means(error: Exception, passes: int, at_least: float) -> None:
    """Retry and unknown errors back off, asked-for delays are kept, Terminal is not tried again."""
    times = []

    async def apply(key: str, saw: str, plan: str) -> None:
        times.append(now())
        if len(times) == 1:
            raise error

    async with running(controller(apply, keys=("a",))):
        await asyncio.sleep(600)
    assert len(times) == passes
    assert times[-1] - times[0] >= at_least


async def test_one_key_never_has_two_passes_at_once_and_other_keys_go_on() -> None:
    """A slow object delays itself only."""
    active: dict[str, int] = {}
    most: dict[str, int] = {}
    finished = []

    async def apply(key: str, saw: str, plan: str) -> None:
        active[key] = active.get(key, 0) + 1
        most[key] = max(most.get(key, 0), active[key])
        await asyncio.sleep(100 if key == "slow" else 1)
        active[key] -= 1
        finished.append((key, round(now())))

    subject = controller(apply)
    async with running(subject):
        began = round(now())
        for _ in range(5):
            subject.queue.add("slow")
            subject.queue.add("quick")
            await asyncio.sleep(0.5)
        await asyncio.sleep(150)
        assert min(at for key, at in finished if key == "quick") - began <= 2
    assert most == {"slow": 1, "quick": 1}


async def test_passes_over_different_keys_are_bounded_by_the_number_of_workers() -> None:
    """Concurrency has a limit."""
    active = 0
    most = 0

    async def apply(key: str, saw: str, plan: str) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(1)
        active -= 1

    async with running(controller(apply, keys=tuple("abcdefgh"), workers=3)):
        await asyncio.sleep(10)
    assert most == 3


async def test_an_inline_pass_excludes_a_worker_on_the_same_key() -> None:
    """The API's inline pass and the queue's never overlap on one object."""
    active = 0
    most = 0
    count = 0

    async def apply(key: str, saw: str, plan: str) -> None:
        nonlocal active, most, count
        active += 1
        count += 1
        most = max(most, active)
        await asyncio.sleep(1)
        active -= 1

    subject = controller(apply)
    async with running(subject):
        subject.queue.add("a")
        await asyncio.gather(*(subject.run_inline("a") for _ in range(3)))
        await asyncio.sleep(5)
    assert (most, count) == (1, 4)


async def test_an_inline_pass_raises_and_the_queue_tries_again() -> None:
    """The caller learns of the failure, and it is not forgotten."""
    attempts = 0

    async def apply(key: str, saw: str, plan: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise Retry("busy")

    subject = controller(apply)
    async with running(subject):
        with pytest.raises(Retry, match="busy"):
            await subject.run_inline("a")
        await asyncio.sleep(10)
    assert attempts == 2


async def test_resync_visits_every_key_without_any_event() -> None:
    """What no event announced is noticed within one period."""
    visits: list[str] = []

    async def apply(key: str, saw: str, plan: str) -> None:
        visits.append(key)

    async with running(controller(apply, keys=("a", "b"), resync=timedelta(minutes=10))):
        await asyncio.sleep(12 * 60)
    assert sorted(visits) == ["a", "a", "b", "b"]


async def test_stopping_lets_the_pass_under_way_finish_and_starts_no_other() -> None:
    """An orderly stop never cuts a step in half."""
    log = []

    async def apply(key: str, saw: str, plan: str) -> None:
        log.append(f"begin {key}")
        await asyncio.sleep(10)
        log.append(f"end {key}")

    async with running(controller(apply, keys=("a", "b"), workers=1)) as stopping:
        await asyncio.sleep(1)
        stopping.set()
    assert log == ["begin a", "end a"]


async def test_a_pass_that_outlives_the_grace_is_cancelled() -> None:
    """Stopping is bounded in time."""
    cancelled = []

    async def apply(key: str, saw: str, plan: str) -> None:
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    began = now()
    async with running(controller(apply, keys=("a",)), grace=timedelta(seconds=5)):
        await asyncio.sleep(1)
    assert cancelled == ["a"]
    assert now() - began == pytest.approx(6, abs=0.5)


async def test_a_stopped_controller_can_run_again() -> None:
    """Leadership comes and goes."""
    visits = []

    async def apply(key: str, saw: str, plan: str) -> None:
        visits.append(key)

    subject = controller(apply, keys=("a",))
    for _ in range(2):
        async with running(subject):
            await asyncio.sleep(1)
    assert visits == ["a", "a"]


async def test_every_pass_is_recorded_with_its_outcome() -> None:
    """The ring tells what was seen, what was decided and how it ended."""

    async def apply(key: str, saw: str, plan: str) -> None:
        raise Terminal("no such workload")

    recorder = Recorder()
    async with running(controller(apply, keys=("a",), recorder=recorder)):
        await asyncio.sleep(1)
    [entry] = recorder.passes("test", "a")
    assert (entry.seen, entry.plan) == ("seen a", "plan for seen a")
    assert entry.result == "terminal: no such workload"


async def test_passes_are_counted_by_result() -> None:
    """`boilerhouse_reconcile_passes_total` tells results apart; how long they took is told too."""

    async def apply(key: str, saw: str, plan: str) -> None:
        if key == "bad":
            raise Terminal("no")

    async with running(controller(apply, keys=("good", "bad"), name="counted")):
        await asyncio.sleep(1)
    metric = "boilerhouse_reconcile_passes_total"
    for result in ("done", "terminal"):
        labels = {"controller": "counted", "result": result}
        assert REGISTRY.get_sample_value(metric, labels) == 1
    for times in ("boilerhouse_reconcile_seconds", "boilerhouse_reconcile_wait_seconds"):
        labels = {"controller": "counted"}
        assert REGISTRY.get_sample_value(f"{times}_count", labels) == 2
        assert REGISTRY.get_sample_value(f"{times}_bucket", {**labels, "le": "1.0"}) == 2


@dataclass
class Lazy:
    """Objects of which some can wait, and what became of them."""

    wanted: dict[str, str]
    judged: list[str] = field(default_factory=list)
    done: list[tuple[str, float]] = field(default_factory=list)

    def controller(self, gate: Gate | None = None) -> Controller[str, str, str]:
        return Controller(
            "lazy",
            read=self.read,
            decide=lambda seen: seen,
            apply=self.apply,
            keys=lambda: list(self.wanted),
            clock=SystemClock(),
            rng=new_rng(1),
            recorder=Recorder(),
            workers=2,
            gate=gate,
            priority=self.judge,
        )

    def judge(self, key: str) -> int:
        if key not in self.judged:
            self.judged.append(key)
        return {"later": DEFERRED, "at leisure": BACKGROUND}.get(self.wanted[key], NORMAL)

    async def read(self, key: str) -> str | None:
        return self.wanted.get(key)

    async def apply(self, key: str, seen: str, plan: str) -> timedelta | None:
        await asyncio.sleep(1)
        self.done.append((f"{key} {plan}", now()))
        return None


async def test_what_can_wait_is_judged_at_once_and_done_behind_the_rest() -> None:
    """Every object is judged before the last that can wait has its pass."""
    lazy = Lazy({"a": "later", "b": "later", "c": "later", "d": "soon"})
    began = now()
    async with running(lazy.controller()):
        await asyncio.sleep(0.5)
        assert lazy.judged == ["a", "b", "c", "d"]
        await asyncio.sleep(5)
    assert sorted(lazy.done) == [
        ("a later", began + 1),
        ("b later", began + 2),
        ("c later", began + 2),
        ("d soon", began + 1),
    ]


async def test_what_happens_before_a_put_off_plan_is_carried_out_counts() -> None:
    """Its turn is a pass like any other: it is done what is right by then."""
    lazy = Lazy(dict.fromkeys("abcd", "later"))
    async with running(lazy.controller()):
        await asyncio.sleep(0.5)
        lazy.wanted["d"] = "nothing at all"  # and no event tells of it
        await asyncio.sleep(5)
    assert [words for words, _ in lazy.done][-1] == "d nothing at all"


async def test_an_inline_pass_does_not_wait_for_the_turn_of_what_was_put_off() -> None:
    """Somebody who comes while an object's plan waits is served now."""
    lazy = Lazy({f"{number:02}": "later" for number in range(20)})
    subject = lazy.controller()
    async with running(subject):
        await asyncio.sleep(0.5)
        lazy.wanted["19"] = "soon"
        began = now()
        await subject.run_inline("19")
        assert now() == began + 1
        await asyncio.sleep(30)
    assert sum(words.startswith("19") for words, _ in lazy.done) <= 2


async def always_in_the_foreground(gate: Gate) -> None:
    """Be in the foreground again and again, without a pause."""
    while True:
        with gate.foreground():
            await asyncio.sleep(0.5)


async def test_what_can_wait_gives_way_and_is_carried_out_all_the_same() -> None:
    """A foreground that never ends holds a put-off plan up for a bounded time, not for ever."""
    lazy, gate = Lazy({"a": "later"}), Gate()
    busy = asyncio.create_task(always_in_the_foreground(gate))
    await asyncio.sleep(0)
    began = now()
    async with running(lazy.controller(gate)):
        await asyncio.sleep(10)
    busy.cancel()
    assert [words for words, _ in lazy.done] == ["a later"]
    assert lazy.done[0][1] <= began + 2 * gate.longest + 1.1


async def test_what_is_in_the_background_is_held_back_for_longer() -> None:
    """A key waits for as long as its priority says, and no longer once that has changed."""
    lazy = Lazy({"calm": "at leisure", "hurried": "at leisure", "usual": "soon"})
    gate = Gate()
    busy = asyncio.create_task(always_in_the_foreground(gate))
    await asyncio.sleep(0)
    began = now()
    async with running(lazy.controller(gate)):
        await asyncio.sleep(3)
        lazy.wanted["hurried"] = "soon"
        await asyncio.sleep(14)
    busy.cancel()
    waited = {words.split()[0]: at - began - 1 for words, at in lazy.done}
    assert waited == {
        "usual": pytest.approx(1, abs=0.2),
        "hurried": pytest.approx(3.5, abs=0.6),
        "calm": pytest.approx(PATIENCE + 0.5, abs=0.6),
    }
