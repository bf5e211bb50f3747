"""Workers: those that are forked do their job like any other, and none is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from pathlib import Path

import pytest
import uvloop

from boilerhouse.platform.archive import workers as archive_workers
from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.packer import Packer, fingerprint
from boilerhouse.platform.archive.unpacker import Unpacker
from boilerhouse.platform.archive.workers import Workers

pytestmark = pytest.mark.processes


def runs(pid: int) -> bool:
    """Whether there is such a process; one whose zygote died may wait for init to bury it."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_workers, "PAUSE", 0.0)


async def with_stem() -> Workers:
    """Return workers that have their zygote."""
    workers = Workers(zygote=True)
    workers.prepare()
    await stem_of(workers)
    return workers


async def stem_of(workers: Workers) -> int:
    async with asyncio.timeout(30):
        while workers._zygote is None:  # noqa: ASYNC110  it says nothing when it is there
            await asyncio.sleep(0.01)
    return workers._zygote.pid


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_forked_worker_does_what_any_other_does(tmp_path: Path) -> None:
    """It finds the same, packs the same bytes, and they can be unpacked by another."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    for number in range(20):
        (there / f"file-{number}").write_bytes(os.urandom(50_000))
    workers = await with_stem()
    try:
        assert await fingerprint({"/w": there}, workers) == await fingerprint({"/w": there})
        archives = []
        for source in (workers, Workers()):
            packer = Packer({"/w": there}, owners=Owners(None, (0, 0)), workers=source)
            archives.append(b"".join([piece async for piece in packer]))
            await packer.close()
        assert archives[0] == archives[1]
        unpacker = Unpacker(
            {"/w": here}, limits=Limits(), owners=Owners(None, (0, 0)), workers=workers
        )
        await unpacker.feed(archives[0])
        done = await unpacker.finish()
        await unpacker.abort()
        assert done.entries == 21
        for number in range(20):
            assert (here / f"file-{number}").read_bytes() == (there / f"file-{number}").read_bytes()
    finally:
        await workers.close()


async def test_many_at_once_leave_nothing_open(tmp_path: Path) -> None:
    """Thirty jobs beside each other all end, and no file of theirs stays open here."""
    (tmp_path / "a").write_bytes(b"1")
    workers = await with_stem()
    await fingerprint({"/w": tmp_path}, workers)
    before = open_files()
    found = await asyncio.gather(*(fingerprint({"/w": tmp_path}, workers) for _ in range(30)))
    assert len(set(found)) == 1
    await asyncio.sleep(0)
    assert open_files() <= before
    await workers.close()


async def test_a_worker_is_killed_with_its_job(tmp_path: Path) -> None:
    """Who closes a packer in the middle of its archive has no worker left."""
    for number in range(50):
        (tmp_path / f"file-{number}").write_bytes(os.urandom(100_000))
    workers = await with_stem()
    packer = Packer({"/w": tmp_path}, owners=Owners(None, (0, 0)), workers=workers)
    assert await anext(packer)
    [child] = children(await stem_of(workers))
    await packer.close()
    assert not runs(child)
    await workers.close()


async def test_who_does_not_wait_leaves_no_worker(tmp_path: Path) -> None:
    """A call that is cut off while its worker is being forked leaves neither worker nor files."""
    workers = await with_stem()
    await fingerprint({"/w": tmp_path}, workers)
    before = open_files()
    for turns in range(6):
        asking = asyncio.create_task(workers.take())
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        if not asking.cancelled():
            worker = asking.result()
            assert worker.stdin is not None
            worker.kill()
            worker.stdin.close()
            await worker.wait()
    async with asyncio.timeout(10):
        while children(await stem_of(workers)) or open_files() > before:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
    await workers.close()


async def test_a_worker_that_takes_no_more_is_told_of_once(tmp_path: Path) -> None:
    """By what is raised; nothing is left for the event loop to complain about."""
    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: complaints.append(told["message"]))
    unpacker = Unpacker({"/workspace": tmp_path}, limits=Limits(), owners=Owners())
    with pytest.raises(BadArchive, match="not compressed by gzip"):
        while True:
            await unpacker.feed(b"no gzip" * 10_000)
    await unpacker.abort()
    del unpacker
    gc.collect()
    assert complaints == []


async def test_saving_gives_way_from_its_start(tmp_path: Path) -> None:
    """A worker that packs has less right to a processor than its parent; one that unpacks has not,
    since somebody waits for it."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "file").write_bytes(os.urandom(8 << 20))
    workers = await with_stem()
    zygote = await stem_of(workers)
    packer = Packer({"/w": tmp_path / "there"}, owners=Owners(None, (0, 0)), workers=workers)
    await anext(packer)
    [packing] = children(zygote)
    assert os.getpriority(os.PRIO_PROCESS, packing) == os.getpriority(os.PRIO_PROCESS, 0) + 10
    assert os.sched_getscheduler(packing) == os.SCHED_BATCH
    await packer.close()
    unpacker = Unpacker(
        {"/w": tmp_path / "here"}, limits=Limits(), owners=Owners(None, (0, 0)), workers=workers
    )
    await unpacker.start()
    [unpacking] = children(zygote)
    assert os.getpriority(os.PRIO_PROCESS, unpacking) == os.getpriority(os.PRIO_PROCESS, 0)
    await unpacker.abort()
    await workers.close()


async def test_a_stem_that_dies_is_replaced(tmp_path: Path) -> None:
    """Its job fails with a sentence, the next gets a worker of its own, later ones a new zygote."""
    (tmp_path / "file").write_bytes(os.urandom(8 << 20))
    workers = await with_stem()
    first = await stem_of(workers)
    packer = Packer({"/w": tmp_path}, owners=Owners(None, (0, 0)), workers=workers)
    await anext(packer)
    [child] = children(first)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(Exception, match="worker ended with -9"):
        async for _ in packer:
            pass
    await packer.close()
    assert (await fingerprint({"/w": tmp_path}, workers)).entries == 2
    second = await stem_of(workers)
    assert second != first
    assert (await fingerprint({"/w": tmp_path}, workers)).entries == 2
    await workers.close()
    assert not any(runs(pid) for pid in (first, child, second))


def test_no_file_of_others_is_closed(tmp_path: Path) -> None:
    """In the loop that `up` runs, a hundred workers come and go while a thread opens files: each
    of these stays open until the thread itself closes it."""
    ended = threading.Event()
    lost: list[OSError] = []

    def open_and_close() -> None:
        while not ended.is_set() and not lost:
            opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
            for number in opened:
                try:
                    os.close(number)
                except OSError as error:
                    lost.append(error)

    async def work() -> None:
        workers = await with_stem()
        for _ in range(10):
            await asyncio.gather(*(fingerprint({"/w": tmp_path}, workers) for _ in range(10)))
        await workers.close()

    thread = threading.Thread(target=open_and_close)
    thread.start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())
    finally:
        ended.set()
        thread.join()
    assert lost == []


async def test_none_is_kept_unless_asked_for(tmp_path: Path) -> None:
    """An agent in its container has no memory to spare."""
    workers = Workers()
    await fingerprint({"/w": tmp_path}, workers)
    workers.prepare()
    await asyncio.sleep(0)
    assert (workers._timer, workers._making, workers._zygote) == (None, None, None)
    await workers.close()


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
