"""The history is bounded by bytes as well as by count: in memory, on disk, when it is loaded."""

from __future__ import annotations

import contextlib
import sqlite3
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.storage import store as store_module
from boilerhouse.embedded.apiserver.storage.history import FRESH_BYTES, MAX_BATCH_BYTES
from boilerhouse.embedded.apiserver.storage.store import Expired, Key, Overrun, Put, Remove, Store

LARGE = 100_000
BIG = Key("pods", "default", "big")


def body(size: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": labels}, "data": "x" * size}


async def rewrite(store: Store, times: int, size: int = LARGE, key: Key = BIG) -> None:
    for n in range(times):
        await store.submit(Put(key, body(size, n=str(n))))


def on_disk(directory: Path) -> int:
    with contextlib.closing(sqlite3.connect(directory / "kube.db")) as db:
        return int(db.execute("SELECT sum(length(raw)) FROM version").fetchone()[0])


async def test_large_versions_leave_the_history_long_before_their_number_does(
    tmp_path: Path,
) -> None:
    """Ten versions fit into the bytes: older ones cannot be watched from, who is behind is told."""
    store = await Store.open(tmp_path, history_bytes=10 * (LARGE + 200))
    slow = store.watch("pods", 1)
    await rewrite(store, 50)
    assert store.oldest == store.revision - 10
    with pytest.raises(Expired):
        store.watch("pods", store.oldest - 1)
    with pytest.raises(Overrun):
        await slow.batch()
    watch = store.watch("pods", store.oldest)
    seen = [await anext(watch) for _ in range(10)]
    assert [change.object.body["metadata"]["labels"]["n"] for change in seen] == [
        str(n) for n in range(40, 50)
    ]
    await store.close()


async def test_what_lives_does_not_count_and_what_was_deleted_does(tmp_path: Path) -> None:
    """A thousand new objects push nothing out; deleting them does, since the history keeps them."""
    store = await Store.open(tmp_path, history_bytes=20 * LARGE)
    for n in range(50):
        await store.submit(Put(BIG._replace(name=f"p{n}"), body(LARGE)))
    assert store.oldest == 1
    for n in range(50):
        await store.submit(Remove(BIG._replace(name=f"p{n}"), body(LARGE)))
    assert store.revision - store.oldest < 20
    await store.close()


async def test_the_newest_change_is_kept_however_large_it_is(tmp_path: Path) -> None:
    """A watcher that keeps up sees every change, even one larger than the whole history may be."""
    store = await Store.open(tmp_path, history_bytes=1000)
    watch = store.watch("pods", 1)
    for n in range(5):
        await store.submit(Put(BIG, body(LARGE, n=str(n))))
        assert (await anext(watch)).object.body["metadata"]["labels"]["n"] == str(n)
    await store.close()


async def test_past_versions_leave_the_disk_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk is the history's bytes, what lives, and at most one round of trimming."""
    monkeypatch.setattr(store_module, "TRIM_AT_BYTES", 5 * LARGE)
    store = await Store.open(tmp_path, history_bytes=10 * LARGE)
    await rewrite(store, 100)
    await store.close()
    assert on_disk(tmp_path) < (10 + 1 + 5 + 2) * (LARGE + 200)


@pytest.mark.slow
async def test_a_start_keeps_to_the_bytes_and_trims_what_is_too_much(tmp_path: Path) -> None:
    """Data with more history than is allowed now loads in little memory, and leaves the disk."""
    store = await Store.open(tmp_path)
    await rewrite(store, 300)
    newest = store.revision
    await store.close()
    assert on_disk(tmp_path) > 300 * LARGE
    tracemalloc.start()
    store = await Store.open(tmp_path, history_bytes=10 * LARGE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * LARGE
    assert (store.revision, newest - store.oldest) == (newest, 9)
    await store.flush()
    await store.close()
    assert on_disk(tmp_path) < 15 * LARGE


@pytest.mark.slow
async def test_a_trim_that_fails_is_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses a while loses no revision that is still to be removed."""
    monkeypatch.setattr(store_module, "TRIM_AT_BYTES", LARGE)
    store = await Store.open(tmp_path, history_bytes=5 * LARGE)
    await rewrite(store, 20)
    with contextlib.closing(sqlite3.connect(tmp_path / "kube.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(store_module.StoreFailed):
            await store.submit(Put(BIG, body(LARGE)))
    await rewrite(store, 20)
    await store.close()
    assert on_disk(tmp_path) < (5 + 1 + 1 + 2) * (LARGE + 200)


async def test_a_batch_is_bounded_by_bytes(tmp_path: Path) -> None:
    """A reader that is far behind gets large changes few at a time, and at least one."""
    store = await Store.open(tmp_path)
    await rewrite(store, 10)
    await store.submit(Put(BIG, body(2 * MAX_BATCH_BYTES)))
    watch = store.watch("pods", 1)
    sizes = []
    while watch.behind:
        sizes.append([len(change.object.raw) for change in await watch.batch()])
    assert sum(map(len, sizes)) == 11
    assert all(sum(batch) <= MAX_BATCH_BYTES for batch in sizes[:-1])
    assert len(sizes[-1]) == 1
    await store.close()


@pytest.mark.slow
@pytest.mark.stalls  # it reads everything in one turn, and traces each allocation
async def test_old_versions_are_kept_as_bytes_however_often_they_are_read(tmp_path: Path) -> None:
    """Readers far behind decode old versions for themselves: the history does not grow by it."""
    store = await Store.open(tmp_path)
    count = 2 * FRESH_BYTES // LARGE
    items = {"metadata": {"name": "x"}, "items": [{"a": n} for n in range(LARGE // 10)]}
    for _ in range(count):
        await store.submit(Put(BIG, items))
    tracemalloc.start()
    for _ in range(2):
        watch = store.watch("pods", 1)
        changes = [await anext(watch) for _ in range(count // 2)]
        for before, change in pairwise(changes):
            assert change.previous is before.object
            assert change.previous.body["items"][1] == {"a": 1}
            assert change.event_line().endswith(b"}\n")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20 * LARGE
    await store.close()
