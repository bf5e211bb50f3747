"""Workers: one that was made ready does its job like any other, and none is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from boilerhouse.agent.archive import workers as archive_workers
from boilerhouse.agent.archive.packer import fingerprint
from boilerhouse.agent.archive.workers import Workers


def ours(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_workers, "PAUSE", 0.0)


async def ready(workers: Workers) -> int:
    """Wait until one is ready; return its number."""
    workers.prepare()
    async with asyncio.timeout(30):
        while workers._spare is None:  # noqa: ASYNC110  it says nothing when it is
            await asyncio.sleep(0.01)
    return workers._spare.pid


async def test_a_spare_worker_does_the_next_job(tmp_path: Path) -> None:
    """It finds what a worker finds that is started for the job, and another takes its place."""
    (tmp_path / "a").write_bytes(b"1")
    workers = Workers(spare=True)
    first = await ready(workers)
    found = await fingerprint({"/w": tmp_path}, workers)
    assert found == await fingerprint({"/w": tmp_path})
    second = await ready(workers)
    assert second != first
    await workers.close()
    assert not ours(first)
    assert not ours(second)


async def test_a_spare_that_has_died_is_not_used(tmp_path: Path) -> None:
    """Somebody killed it: the job gets a worker of its own."""
    workers = Workers(spare=True)
    await ready(workers)
    assert workers._spare is not None
    workers._spare.kill()
    await workers._spare.wait()
    assert (await fingerprint({"/w": tmp_path}, workers)).entries == 1
    await workers.close()


async def test_none_is_kept_unless_asked_for(tmp_path: Path) -> None:
    """An agent in its container has no memory to spare."""
    workers = Workers()
    await fingerprint({"/w": tmp_path}, workers)
    workers.prepare()
    await asyncio.sleep(0)
    assert (workers._timer, workers._making, workers._spare) == (None, None, None)
    await workers.close()
