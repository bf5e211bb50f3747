"""Ten thousand idle deadlines on the controller's own timers, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.loop.priority import DEFERRED, NORMAL
from boilerhouse.platform.loop.recorder import Recorder
from boilerhouse.tenancy.idle.verdict import Idle, Keep, Verdict, verdict
from boilerhouse.tenancy.workloads.model import Idle as IdleSpec

pytestmark = pytest.mark.looptime

CLAIMS = 10_000
TIMEOUT = timedelta(minutes=5)
SPEC = IdleSpec(timeout_seconds=300)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WRITE = 0.002  # seconds that carrying a decision out takes


class LoopClock:
    """The loop's virtual time, on both readings."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass
class Claims:
    """Claims with their last activity, judged by the production verdict."""

    clock: LoopClock = field(default_factory=LoopClock)
    active: dict[int, datetime] = field(default_factory=dict)
    decided: dict[int, timedelta] = field(default_factory=dict)  # how late, the first time
    released: dict[int, timedelta] = field(default_factory=dict)  # how late
    passes: int = 0

    def controller(self) -> Controller[int, datetime, Verdict]:
        return Controller(
            "idle",
            read=self.read,
            decide=lambda active: verdict(self.clock.now(), SPEC, active, active, None),
            apply=self.apply,
            priority=lambda key: DEFERRED if self.is_due(key) else NORMAL,
            keys=lambda: list(self.active),
            clock=self.clock,
            rng=new_rng(1),
            recorder=Recorder(),
            resync=timedelta(hours=10),
        )

    def is_due(self, key: int) -> bool:
        now, active = self.clock.now(), self.active[key]
        due = key not in self.released and isinstance(
            verdict(now, SPEC, active, active, None), Idle
        )
        if due:
            self.decided.setdefault(key, now - active - TIMEOUT)
        return due

    async def read(self, key: int) -> datetime | None:
        self.passes += 1
        return None if key in self.released else self.active[key]

    async def apply(self, key: int, active: datetime, plan: Verdict) -> timedelta | None:
        now = self.clock.now()
        match plan:
            case Keep(datetime() as until, _):
                return until - now
            case Idle(since, _):
                await asyncio.sleep(WRITE)
                if self.active[key] == active:  # else the compare-and-swap fails
                    self.released[key] = now - (since + TIMEOUT)
                    return None
                return timedelta(0)
        raise AssertionError(plan)


async def _run(claims: Claims, seconds: float, touches: dict[int, float]) -> None:
    controller = claims.controller()
    stopping = asyncio.Event()
    running = asyncio.create_task(controller.run(stopping))
    await asyncio.sleep(0)
    for key, after in sorted(touches.items(), key=lambda item: item[1]):
        await asyncio.sleep(max(after - claims.clock.monotonic(), 0))
        claims.active[key] = claims.clock.now()
        controller.queue.add(key)  # the informer tells of the annotation
    await asyncio.sleep(seconds - claims.clock.monotonic())
    stopping.set()
    await running


@pytest.mark.slow
async def test_each_of_ten_thousand_is_decided_within_a_second() -> None:
    """Deadlines all over five minutes: none early, none late, two passes each and no scan."""
    claims, rng = Claims(), new_rng(7)
    began = claims.clock.now()
    for key in range(CLAIMS):
        claims.active[key] = began - timedelta(seconds=rng.randrange(290))
    touches = {key: rng.randrange(1, 9) + 0.5 for key in range(0, CLAIMS, 10)}
    await _run(claims, 320, touches)
    assert len(claims.released) == CLAIMS
    assert timedelta(0) <= min(claims.released.values())
    assert max(claims.released.values()) <= timedelta(seconds=1)
    assert claims.passes <= 2 * CLAIMS + len(touches)


async def test_activity_at_the_very_deadline_wins() -> None:
    """A note that comes while the decision is being written makes it fail, and begins anew."""
    claims = Claims()
    claims.active[0] = claims.clock.now()
    deadline = TIMEOUT.total_seconds()
    await _run(claims, deadline + 1, {0: deadline + WRITE / 2})
    assert not claims.released
    again = Claims()
    again.active[0] = again.clock.now()
    end = again.clock.monotonic() + deadline
    await _run(again, end + 1, {})
    assert len(again.released) == 1


async def test_activity_between_the_decision_and_its_turn_wins() -> None:
    """Who comes back while the others are written down keeps the instance."""
    claims = Claims()
    claims.active = dict.fromkeys(range(1000), claims.clock.now())
    claims.active[999] += timedelta(milliseconds=1)  # the last in the line
    late = TIMEOUT.total_seconds() + 10 * WRITE
    await _run(claims, TIMEOUT.total_seconds() + 5, {999: late})
    assert claims.decided[999] < timedelta(seconds=9 * WRITE)
    assert set(range(1000)) - set(claims.released) == {999}


@pytest.mark.slow
async def test_ten_thousand_deadlines_at_the_same_moment() -> None:
    """Everybody left together: all are decided at once, and then written one after another."""
    claims = Claims()
    began = claims.clock.now()
    claims.active = dict.fromkeys(range(CLAIMS), began)
    await _run(claims, 305, {})
    assert max(claims.decided.values()) <= timedelta(seconds=1)
    assert len(claims.decided) == len(claims.released) == CLAIMS
    assert claims.passes == 2 * CLAIMS
    # Sixteen workers write: it is the writes that take this long.
    assert max(claims.released.values()) <= timedelta(seconds=CLAIMS * WRITE / 16 + 1)
