"""Steps that take long."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.applying.jobs import Jobs
from boilerhouse.tenancy.claims.seen import QUEUED

KEY = Key("sim", "claim")


def unexpected(error: BaseException) -> None:
    raise AssertionError("no such job is in this test") from error


async def test_a_short_job_is_done_when_it_comes_back() -> None:
    """The pass that started it sees its result."""
    done: list[str] = []

    async def work() -> None:
        done.append("saved")

    jobs = Jobs(lambda key: done.append("woken"))
    await jobs.run(KEY, "Save", work(), unexpected)
    assert done[0] == "saved"
    assert jobs.of(KEY) == frozenset()


@pytest.mark.looptime
async def test_a_long_job_goes_on_by_itself_and_wakes_its_claim() -> None:
    """Meanwhile it is known to be under way, and holds up nobody else."""
    woken: list[Key] = []

    async def work() -> None:
        await asyncio.sleep(60)

    jobs = Jobs(woken.append)
    await jobs.run(KEY, "Save", work(), unexpected)
    assert jobs.of(KEY) == {"Save"}
    assert woken == []
    await asyncio.sleep(61)
    assert (jobs.of(KEY), woken) == (frozenset(), [KEY])


@pytest.mark.looptime
async def test_whoever_hangs_up_does_not_end_it() -> None:
    """A caller of the API goes away in the middle of a restore."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        done.append("restored")

    jobs = Jobs(lambda key: None)
    caller = asyncio.create_task(jobs.run(KEY, "Restore", work(), unexpected))
    await asyncio.sleep(0.05)
    caller.cancel()
    await asyncio.sleep(1)
    assert done == ["restored"]


@pytest.mark.looptime
async def test_the_end_ends_what_runs() -> None:
    """The next process does it again."""

    async def work() -> None:
        await asyncio.sleep(600)

    jobs = Jobs(lambda key: None)
    await jobs.run(KEY, "Save", work(), unexpected)
    await jobs.close()
    assert jobs.of(KEY) == frozenset()


@pytest.mark.parametrize("bug", [AssertionError("a bug"), asyncio.CancelledError()])
@pytest.mark.parametrize("way", ["run", "save"])
async def test_a_bug_in_a_job_is_logged_and_told_before_the_claim_is_woken(
    bug: BaseException, way: str
) -> None:
    """Whoever began it can make a failure of it; a job that somebody cut off is one too."""
    story: list[str] = []

    async def work() -> None:
        raise bug

    def failed(error: BaseException) -> None:
        story.append(type(error).__name__)

    def wake(key: Key) -> None:
        story.append("woken")
        woken.set()

    woken = asyncio.Event()
    jobs = Jobs(wake)
    with capture_logs() as logs:
        if way == "run":
            await jobs.run(KEY, "Save", work(), failed)
        else:
            await jobs.save(KEY, "Save", work(), failed, first=False)
        await woken.wait()
    assert [entry["event"] for entry in logs] == ["claim.job_failed"]
    assert story == [type(bug).__name__, "woken"]


@pytest.mark.looptime
async def test_saves_take_turns() -> None:
    """So many at a time; whoever waits is said to be queued, and one that is to hurry is next."""
    began: list[str] = []

    async def save(name: str) -> None:
        began.append(name)
        await asyncio.sleep(1)

    jobs = Jobs(lambda key: None, saves=2)
    keys = [Key("sim", f"claim-{number}") for number in range(5)]
    for key in keys:
        await jobs.save(key, "Save", save(key.name), unexpected, first=False)
    await asyncio.sleep(0.1)
    assert began == ["claim-0", "claim-1"]
    assert jobs.of(keys[0]) == {"Save"}
    assert jobs.of(keys[4]) == {"Save", QUEUED}
    jobs.hurry(keys[4])
    await asyncio.sleep(1)
    assert began == ["claim-0", "claim-1", "claim-4", "claim-2"]
    await jobs.close()
    assert all(jobs.of(key) == frozenset() for key in keys)


@pytest.mark.looptime
async def test_a_save_that_only_waits_leaves_its_place() -> None:
    """Tenants that do not come to rest keep no other from being saved."""
    saved: list[str] = []

    async def save(key: Key) -> None:
        if key.name == "restless":
            await asyncio.sleep(0.5)
            jobs.leave_place(key)
            await asyncio.sleep(10)
        saved.append(key.name)

    jobs = Jobs(lambda key: None, saves=1)
    for name in ("restless", "calm"):
        key = Key("sim", name)
        await jobs.save(key, "Save", save(key), unexpected, first=False)
    await asyncio.sleep(1)
    assert saved == ["calm"]
    await asyncio.sleep(10)
    assert saved == ["calm", "restless"]


@pytest.mark.looptime
async def test_a_pass_does_not_wait_for_a_save() -> None:
    """It has its place among those that are under way, and others are behind it."""

    async def save() -> None:
        await asyncio.sleep(1)

    jobs = Jobs(lambda key: None)
    began = asyncio.get_running_loop().time()
    await jobs.save(KEY, "Save", save(), unexpected, first=False)
    assert asyncio.get_running_loop().time() == began
    await jobs.close()
