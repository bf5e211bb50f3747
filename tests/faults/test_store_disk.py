"""A disk that refuses: full, limited, or failing. Writes fail clearly, nothing promised is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.storage import checkpoint
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Remove, Store, StoreFailed


def key(name: str) -> Key:
    return Key("pods", "default", name)


def body(name: str, size: int = 1000) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"text": "x" * size}}


async def fill_until_failure(store: Store, prefix: str, size: int = 20_000) -> list[str]:
    """Create objects until the disk refuses; return the names that were acknowledged."""
    acknowledged: list[str] = []
    for n in range(10_000):
        name = f"{prefix}{n:05}"
        try:
            await store.submit(Put(key(name), body(name, size)))
        except StoreFailed:
            return acknowledged
        acknowledged.append(name)
    pytest.fail("the disk never became full")


def names(store: Store) -> list[str]:
    return [stored.key.name for stored in store.scan("pods")]


async def test_a_full_disk_fails_writes_and_the_store_works_again_when_there_is_room(
    tmp_path: Path, file_limit: Any
) -> None:
    """Acknowledged writes stay, failed ones leave no trace in head or history, then all is well."""
    store = await Store.open(tmp_path)
    watch = store.watch("pods", store.revision)
    file_limit(1_000_000)
    kept = await fill_until_failure(store, "a")
    assert names(store) == kept
    assert store.scan_head("pods") == store.scan("pods")
    with pytest.raises(StoreFailed, match="could not be stored: "):
        await store.submit(Put(key("big"), body("big", 900_000)))
    assert store.head(key("big")) is None
    file_limit(None)
    await store.submit(Put(key("later"), body("later")))
    seen = [(await anext(watch)).key.name for _ in range(len(kept) + 1)]
    assert seen == [*kept, "later"]
    await store.close()
    store = await Store.open(tmp_path)
    assert names(store) == [*kept, "later"]
    await store.close()


async def test_a_full_file_system_is_survived(small_disk: Path) -> None:
    """With no block left writes fail, readers go on, and freed space is used again."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    store = await Store.open(small_disk / "data")
    kept = await fill_until_failure(store, "a")
    assert kept
    assert names(store) == kept
    ballast.unlink()
    await store.submit(Put(key("later"), body("later")))
    await store.close()
    store = await Store.open(small_disk / "data")
    assert names(store) == [*kept, "later"]
    await store.close()


async def test_a_failed_commit_fails_everything_that_was_decided_on_it(
    tmp_path: Path, file_limit: Any
) -> None:
    """Writes queued behind the failing one fail too; their revisions are not used again."""
    store = await Store.open(tmp_path)
    [kept] = await store.submit(Put(key("kept"), body("kept")))
    file_limit(100_000)
    futures = [store.submit(Put(key("huge"), body("huge", 300_000)))]
    futures += [store.submit(Put(key(f"after{n}"), body("after"))) for n in range(5)]
    futures.append(store.submit(Remove(key("kept"), body("kept"))))
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert {type(result) for result in results} == {StoreFailed}
    assert store.head(key("kept")) is kept
    assert names(store) == ["kept"]
    assert store.revision == kept.revision
    file_limit(None)
    [after] = await store.submit(Put(key("next"), body("next")))
    assert after.revision == kept.revision + len(futures) + 1
    await store.close()
    store = await Store.open(tmp_path)
    assert names(store) == ["kept", "next"]
    assert [c.revision for c in await store.watch("pods", 1).batch()] == [2, after.revision]
    await store.close()


async def test_a_checkpoint_that_fails_loses_nothing_and_is_done_later(
    tmp_path: Path, file_limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database file cannot grow, commits go on in the log; it is moved when it can."""
    monkeypatch.setattr(checkpoint, "EVERY", 50_000)
    store = await Store.open(tmp_path)
    limit = (tmp_path / "kube.db").stat().st_size + 4096 * 30
    file_limit(limit)
    kept = await fill_until_failure(store, "a", 10_000)
    file_limit(None)
    more = [f"b{n}" for n in range(20)]
    for name in more:
        await store.submit(Put(key(name), body(name, 10_000)))
    await store.close()
    assert not (tmp_path / "kube.db-wal").exists()
    store = await Store.open(tmp_path)
    assert names(store) == kept + sorted(more)
    await store.close()


async def test_the_database_may_reach_its_own_limit(
    tmp_path: Path,
) -> None:
    """SQLite's page limit behaves like a full disk: clear failure, nothing lost, works after."""
    store = await Store.open(tmp_path, history=1)
    journal = store._journal
    journal._db.execute("PRAGMA max_page_count = 60")
    kept = await fill_until_failure(store, "a", 5_000)
    with pytest.raises(StoreFailed, match="full"):
        await store.submit(Put(key("more"), body("more", 50_000)))
    journal._db.execute("PRAGMA max_page_count = 6000")
    await store.submit(Put(key("more"), body("more", 50_000)))
    await store.close()
    store = await Store.open(tmp_path)
    assert names(store) == [*kept, "more"]
    await store.close()


async def test_a_connection_that_broke_is_replaced(tmp_path: Path) -> None:
    """If the writer's connection is no longer usable, the next write gets a new one."""
    store = await Store.open(tmp_path)
    await store.submit(Put(key("a"), body("a")))
    store._journal._db.close()
    with pytest.raises(StoreFailed):
        await store.submit(Put(key("b"), body("b")))
    await store.submit(Put(key("c"), body("c")))
    assert names(store) == ["a", "c"]
    await store.close()


async def test_a_database_that_is_not_where_it_was_left_is_not_written_to(tmp_path: Path) -> None:
    """If someone else wrote to the file, the store stops writing: two histories must not mix."""
    store = await Store.open(tmp_path)
    await store.submit(Put(key("a"), body("a")))
    foreign = sqlite3.connect(tmp_path / "kube.db")
    foreign.execute("INSERT INTO version SELECT 50, 0, resource, namespace, 'x', raw FROM version")
    foreign.commit()
    foreign.close()
    store._journal._suspect = True
    for _ in range(2):
        with pytest.raises(StoreFailed, match="is at revision 50 instead of 2: restart"):
            await store.submit(Put(key("b"), body("b")))
    assert names(store) == ["a"]
    await store.close()


async def test_a_disk_without_room_is_called_that_at_the_start(small_disk: Path) -> None:
    """SQLite speaks of an I/O error; people are told what it is, new or not, and it passes."""
    data, ballast = small_disk / "data", small_disk / "ballast"
    store = await Store.open(data)
    await store.submit(Put(key("a"), body("a")))
    await store.close()
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    for directory in (data, small_disk / "new"):
        with pytest.raises(StoreFailed, match="No space left on device"):
            await Store.open(directory)
    ballast.unlink()
    store = await Store.open(data)
    assert names(store) == ["a"]
    await store.close()
