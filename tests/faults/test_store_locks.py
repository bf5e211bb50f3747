"""Two at one data directory or database: refused clearly, and over when the other is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.storage.database import (
    close_unmoved,
    connect,
    database_file,
    wal_file,
)
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Store, StoreFailed, StoreLocked


def key(name: str) -> Key:
    return Key("pods", "default", name)


def body(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def names(store: Store) -> list[str]:
    return [stored.key.name for stored in store.scan("pods")]


async def test_connections_are_closed_without_moving_the_log(tmp_path: Path) -> None:
    """Not even the last one moves it; and who cannot be the last because of others says so."""
    path, log = database_file(tmp_path), wal_file(database_file(tmp_path))
    await (await Store.open(tmp_path)).close()
    db = connect(path)
    db.execute("UPDATE history SET oldest = 5")
    before = (path.read_bytes(), log.read_bytes())
    close_unmoved(path, db)
    assert (path.read_bytes(), log.read_bytes()) == before
    db = connect(path)
    program = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        "print(db.execute('SELECT oldest FROM history').fetchall(), flush=True); input()"
    )
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdout is not None
    assert await reader.stdout.readline() == b"[(5,)]\n"
    with pytest.raises(StoreFailed, match="open in another process"):
        close_unmoved(path, db)
    await reader.communicate(b"\n")
    assert not log.exists(), "the reader, who knows nothing of this, was the last"


async def test_a_database_locked_by_another_process_is_a_clear_error_that_passes(
    tmp_path: Path,
) -> None:
    """While another process holds SQLite's write lock writes fail and say so; then they work."""
    store = await Store.open(tmp_path)
    await store.submit(Put(key("a"), body("a")))
    program = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")
"""
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(tmp_path / "kube.db"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    with pytest.raises(StoreFailed, match="database is locked"):
        await store.submit(Put(key("b"), body("b")))
    assert names(store) == ["a"]
    await holder.communicate(b"\n")
    await store.submit(Put(key("c"), body("c")))
    assert names(store) == ["a", "c"]
    await store.close()


HOLD = """
import asyncio, sys
from pathlib import Path
from boilerhouse.embedded.apiserver.storage.store import Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await store.close()

asyncio.run(main())
"""


async def test_a_second_process_on_one_directory_is_refused_and_told_who_has_it(
    tmp_path: Path,
) -> None:
    """The refusal names the directory and the process; when that one is gone the door is open."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLD,
        str(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    with pytest.raises(StoreLocked) as refusal:
        await Store.open(tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert f"process {holder.pid}" in str(refusal.value)
    holder.kill()
    await holder.communicate()
    store = await Store.open(tmp_path)
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        await Store.open(tmp_path)
    await store.close()
