"""Closing and opening again: objects, history, revisions, trimming, and damaged files."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.storage import checkpoint
from boilerhouse.embedded.apiserver.storage import store as store_module
from boilerhouse.embedded.apiserver.storage.store import (
    Expired,
    Key,
    Put,
    Remove,
    Store,
    StoreFailed,
)


def key(name: str) -> Key:
    return Key("pods", "default", name)


def body(name: str, **labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def fill(directory: Path, **options: Any) -> None:
    """Leave 40 objects, of which ten were changed and five removed."""
    store = await Store.open(directory, **options)
    await store.submit(*(Put(key(f"p{n:02}"), body(f"p{n:02}")) for n in range(45)))
    await store.submit(*(Put(key(f"p{n:02}"), body(f"p{n:02}", v="2")) for n in range(10)))
    await store.submit(*(Remove(key(f"p{n:02}"), body(f"p{n:02}")) for n in range(40, 45)))
    await store.close()


async def test_objects_and_history_survive_a_restart(tmp_path: Path) -> None:
    """After a restart the objects, their bytes and every retained change are as before."""
    first = await Store.open(tmp_path)
    await first.close()
    await fill(tmp_path)
    store = await Store.open(tmp_path)
    assert store.revision == 61
    assert [s.key.name for s in store.scan("pods")] == [f"p{n:02}" for n in range(40)]
    assert store.scan_head("pods") == store.scan("pods")
    assert {s.body["metadata"]["labels"].get("v") for s in store.scan("pods")[:10]} == {"2"}
    changes = await store.watch("pods", 1).batch()
    assert [c.revision for c in changes] == list(range(2, 62))
    assert [c.type for c in changes] == ["ADDED"] * 45 + ["MODIFIED"] * 10 + ["DELETED"] * 5
    assert all((c.previous is None) == (c.type == "ADDED") for c in changes)
    await store.close()


async def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    """A client that saw revision R before gets exactly the changes after R from the new process."""
    await fill(tmp_path)
    store = await Store.open(tmp_path)
    watch = store.watch("pods", since=56)
    await store.submit(Put(key("new"), body("new")))
    names = [(change.type, change.key.name) for change in await watch.batch()]
    assert names == [("DELETED", f"p{n}") for n in range(40, 45)] + [("ADDED", "new")]
    await store.close()


async def test_the_newest_revision_is_not_used_again_after_everything_was_deleted(
    tmp_path: Path,
) -> None:
    """Revisions go on from the newest write even when that was a deletion, with any history."""
    store = await Store.open(tmp_path, history=1)
    await store.submit(Put(key("a"), body("a")))
    await store.submit(Remove(key("a"), body("a")))
    await store.close()
    store = await Store.open(tmp_path, history=1)
    assert (store.revision, store.scan("pods")) == (3, [])
    [stored] = await store.submit(Put(key("a"), body("a")))
    assert stored.revision == 4
    await store.close()


@pytest.mark.slow
async def test_past_versions_leave_the_disk_and_the_rest_stays_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only live objects, retained changes and what those replaced are kept, across restarts."""
    monkeypatch.setattr(store_module, "TRIM_AT", 5)
    for turn in range(3):
        store = await Store.open(tmp_path, history=10)
        for n in range(40):
            name = f"p{n % 4}"
            await store.submit(Put(key(name), body(name, n=str(n), turn=str(turn))))
        await store.submit(Put(key("gone"), body("gone")))
        await store.submit(Remove(key("gone"), body("gone")))
        await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "kube.db")) as db:
        [(rows,)] = db.execute("SELECT count(*) FROM version")
    assert rows <= 10 + 10 + 4 + 2 * 5
    store = await Store.open(tmp_path, history=10)
    assert store.revision == 1 + 3 * 42
    assert [s.body["metadata"]["labels"]["n"] for s in store.scan("pods")] == [
        "36",
        "37",
        "38",
        "39",
    ]
    assert store.oldest == store.revision - 10
    with pytest.raises(Expired):
        store.watch("pods", store.oldest - 1)
    changes = await store.watch("pods", store.oldest).batch()
    assert [c.type for c in changes] == ["MODIFIED"] * 8 + ["ADDED", "DELETED"]
    assert all(c.previous is not None for c in changes if c.type != "ADDED")
    await store.close()


async def test_a_longer_history_does_not_pretend_to_know_what_was_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened with a larger limit, a store offers only revisions that it has without gaps."""
    monkeypatch.setattr(store_module, "TRIM_AT", 1)
    store = await Store.open(tmp_path, history=5)
    await store.submit(Put(key("first"), body("first")))
    for n in range(20):
        await store.submit(Put(key("a"), body("a", n=str(n))))
    await store.close()
    store = await Store.open(tmp_path, history=100)
    assert store.revision == 22
    changes = await store.watch("pods", store.oldest).batch()
    assert [c.revision for c in changes] == list(range(store.oldest + 1, 23))
    assert store.oldest >= 16
    assert store.get(key("first")) is not None
    await store.close()


async def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    """Directory 0700, database, log and lock 0600: Secrets are in there."""
    directory = tmp_path / "deep" / "data"
    store = await Store.open(directory)
    await store.submit(Put(key("a"), body("a")))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {"kube.db": 0o600, "kube.db-wal": 0o600, "kube.db-shm": 0o600, "lock": 0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    await store.close()


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A database of a later version is left alone and named, with what to do."""
    await fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "kube.db")) as db:
        db.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreFailed, match=r"kube\.db was written by a newer .* \(schema 7"):
        await Store.open(tmp_path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    path.write_bytes(data)


def foreign(path: Path) -> None:
    path.write_bytes(b"not a database, however long one looks at it" * 300)


def other_database(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")


def damaged_object(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE version SET raw = substr(raw, 1, 20) WHERE revision = 9")


def misplaced_object(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE version SET raw = replace(raw, '\"9\"', '\"8\"') WHERE revision = 9")


@pytest.mark.parametrize(
    "damage",
    [truncate, empty, scribble, foreign, other_database, damaged_object, misplaced_object],
)
async def test_a_damaged_database_is_named_and_left_as_it_is(tmp_path: Path, damage: Any) -> None:
    """Opening a broken file fails with its name; it is neither replaced nor emptied."""
    await fill(tmp_path)
    path = tmp_path / "kube.db"
    damage(path)
    broken = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"kube\.db"):
            await Store.open(tmp_path)
    assert path.read_bytes() == broken


async def test_a_missing_database_beside_its_log_is_not_recreated(tmp_path: Path) -> None:
    """If kube.db is gone while its write-ahead log is there, something went wrong: refuse."""
    await fill(tmp_path)
    (tmp_path / "kube.db").rename(tmp_path / "elsewhere")
    (tmp_path / "kube.db-wal").write_bytes(b"")
    with pytest.raises(StoreFailed, match=r"kube\.db is missing but kube\.db-wal is there"):
        await Store.open(tmp_path)


async def test_a_birth_that_was_interrupted_is_started_over(tmp_path: Path) -> None:
    """What a crash left of a database that was never finished does not stand in the way."""
    (tmp_path / "kube.db.new").write_bytes(b"half")
    (tmp_path / "kube.db.new-wal").write_bytes(b"half")
    await fill(tmp_path)
    assert names_in(tmp_path) == ["kube.db", "lock"]


async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A data directory that is a file gives one clear error."""
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(StoreFailed, match="data cannot be used: "):
        await Store.open(tmp_path / "data")


async def test_the_log_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under steady writing the write-ahead log is moved into the file, cut, and stays bounded."""
    monkeypatch.setattr(checkpoint, "EVERY", 200_000)
    monkeypatch.setattr(checkpoint, "CUT_AT", 1_000_000)
    store = await Store.open(tmp_path, history=10)
    text = "x" * 10_000
    largest = 0
    for n in range(60):
        await asyncio.gather(
            *(store.submit(Put(key(f"p{i}"), body(f"p{i}", n=str(n), t=text))) for i in range(20))
        )
        largest = max(largest, (tmp_path / "kube.db-wal").stat().st_size)
    assert 200_000 < largest < 6_000_000
    await store.close()
    assert not (tmp_path / "kube.db-wal").exists()
    assert (tmp_path / "kube.db").stat().st_size > 200_000


@pytest.mark.slow
async def test_the_log_does_not_grow_from_killed_life_to_killed_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that die before it is their time to move the log do not leave it to nobody."""
    monkeypatch.setattr(checkpoint, "EVERY", 200_000)
    for life in range(20):
        directory = tmp_path / str(life)
        store = await Store.open(directory)
        database = directory / "kube.db"
        before = database.stat().st_mtime_ns
        for n in range(5):
            await store.submit(Put(key(f"{life}-{n}"), body("x" * 5000)))
            if n == 0 and (directory / "kube.db-wal").stat().st_size > 200_000:
                async with asyncio.timeout(30):
                    while database.stat().st_mtime_ns == before:  # noqa: ASYNC110  a thread's
                        await asyncio.sleep(0.01)
        # What a killed process leaves is what is there now.
        shutil.copytree(directory, tmp_path / str(life + 1))
        await store.close()
    assert (tmp_path / "20" / "kube.db-wal").stat().st_size < 600_000
    store = await Store.open(tmp_path / "20")
    assert len(store.scan("pods")) == 100
    await store.close()
