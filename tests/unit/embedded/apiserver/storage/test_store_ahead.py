"""Writes that are answered ahead of the disk: what is visible when, and what stands for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.storage.store import MAX_DEFERRED, YIELD_EVERY, Key, Put, Store
from boilerhouse.platform.kube.wire import MERGE_PATCH, Reply, Request
from tests.unit.embedded.apiserver.conftest import Embedded

CONFIGS = "/api/v1/namespaces/default/configmaps"


def key(name: str) -> Key:
    return Key("pods", "default", name)


def body(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path)
    yield opened
    await opened.close()


async def test_it_is_answered_at_once_and_shown_to_nobody_else(store: Store) -> None:
    """The head has it, readers and watchers do not."""
    answer = store.submit(Put(key("a"), body("a")), deferred=True)
    assert answer.done()
    [stored] = answer.result()
    assert store.head(key("a")) is stored
    assert store.get(key("a")) is None
    assert store.unsettled


async def test_a_later_write_stands_for_it(store: Store) -> None:
    """Once that is on disk so is what came before it, in order, and watchers hear of both."""
    watch = store.watch("pods", store.revision)
    [first] = await store.submit(Put(key("a"), body("a")), deferred=True)
    [second] = await store.submit(Put(key("b"), body("b")))
    assert first.revision < second.revision
    assert store.get(key("a")) is first
    assert [change.object for change in await watch.batch()] == [first, second]


async def test_nothing_need_follow_it(store: Store) -> None:
    """It goes to disk by itself, a moment later."""
    watch = store.watch("pods", store.revision)
    [stored] = await store.submit(Put(key("a"), body("a")), deferred=True)
    assert (await anext(watch)).object is stored
    assert store.get(key("a")) is stored


async def test_closing_takes_it_to_disk(tmp_path: Path) -> None:
    """As whatever else was submitted."""
    store = await Store.open(tmp_path)
    await store.submit(Put(key("a"), body("a")), deferred=True)
    await store.close()
    again = await Store.open(tmp_path)
    assert [stored.key.name for stored in again.scan("pods")] == ["a"]
    await again.close()


async def _ask(embedded: Embedded, method: str, name: str = "", *, deferred: bool = False) -> Reply:
    sent: object = {}
    headers = {"content-type": MERGE_PATCH}
    if method == "POST":
        headers = {"content-type": "application/json"}
        sent = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}
    content = b"" if method == "GET" else msgspec.json.encode(sent)
    path = f"{CONFIGS}/{name}" if name else CONFIGS
    request = Request(method, path, headers=headers, body=content, deferred=deferred)
    return await InProcess(embedded.server).request(request)


async def test_who_writes_ahead_reads_ahead(embedded: Embedded) -> None:
    """At once; any other reader, and whoever lists, finds it too, once it is on disk."""
    assert (await _ask(embedded, "POST", deferred=True)).status == 201
    assert (await _ask(embedded, "GET", "a", deferred=True)).status == 200
    key = Key("configmaps", "default", "a")
    assert embedded.store.get(key) is None
    assert (await _ask(embedded, "GET", "a")).status == 200
    assert embedded.store.get(key) is not None
    assert (await _ask(embedded, "POST", name="", deferred=True)).status == 409


async def test_a_list_has_what_was_answered_ahead(embedded: Embedded) -> None:
    """And is not older than it, or a cache would take it for a server that forgot."""
    made = msgspec.json.decode((await _ask(embedded, "POST", deferred=True)).body)
    listed = msgspec.json.decode((await _ask(embedded, "GET")).body)
    assert "a" in [item["metadata"]["name"] for item in listed["items"]]
    version = int(made["metadata"]["resourceVersion"])
    assert int(listed["metadata"]["resourceVersion"]) >= version


async def test_a_patch_that_changes_nothing_waits_for_what_it_found(embedded: Embedded) -> None:
    """So its answer says that an object which was made ahead is on disk."""
    await _ask(embedded, "POST", deferred=True)
    assert (await _ask(embedded, "PATCH", "a")).status == 200
    assert (await _ask(embedded, "GET", "a")).status == 200


async def test_writes_ahead_without_end_leave_the_loop_to_others(store: Store) -> None:
    """Who only writes ahead waits for the disk now and then; none of the writes is refused."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    for number in range(4 * MAX_DEFERRED):
        await store.submit(Put(key(f"p{number}"), body(f"p{number}")), deferred=True)
    task.cancel()
    assert turns >= 3
    await store.flush()
    assert len(store.scan("pods")) == 4 * MAX_DEFERRED


@pytest.mark.slow
async def test_ten_thousand_writes_ahead_let_others_in_between(store: Store) -> None:
    """Another task has its turn after every few of them, not only when the disk is waited for."""
    written = longest = 0

    async def others() -> None:
        nonlocal longest
        while True:
            before = written
            await asyncio.sleep(0)
            longest = max(longest, written - before)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    for number in range(10_000):
        await store.submit(Put(key(f"p{number}"), body(f"p{number}")), deferred=True)
        written += 1
    task.cancel()
    assert longest <= YIELD_EVERY
