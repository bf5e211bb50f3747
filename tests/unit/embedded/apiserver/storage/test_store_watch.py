"""Watching: replay, order, filtering, bookmarks, falling behind, and what a line looks like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from boilerhouse.embedded.apiserver.storage.change import Change
from boilerhouse.embedded.apiserver.storage.history import FRESH
from boilerhouse.embedded.apiserver.storage.store import Expired, Key, Overrun, Put, Remove, Store


def key(name: str, namespace: str = "default", resource: str = "pods") -> Key:
    return Key(resource, namespace, name)


def body(name: str, **labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def told(changes: list[Change]) -> list[tuple[str, str, int]]:
    return [(change.type, change.key.name, change.revision) for change in changes]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path, history=20)
    yield opened
    await opened.close()


async def test_a_watch_replays_what_came_after_its_revision_and_then_goes_live(
    store: Store,
) -> None:
    """Retained changes come first, live ones follow, nothing twice and nothing missing."""
    await store.submit(Put(key("a"), body("a")))
    await store.submit(Put(key("a"), body("a", v="2")))
    watch = store.watch("pods", since=2)
    live = store.submit(Remove(key("a"), body("a")), Put(key("b"), body("b")))
    await live
    assert told([await anext(watch) for _ in range(3)]) == [
        ("MODIFIED", "a", 3),
        ("DELETED", "a", 4),
        ("ADDED", "b", 5),
    ]


async def test_a_change_carries_the_version_it_replaced(store: Store) -> None:
    """`previous` is the version before, so that selectors can tell who came and who left."""
    [first] = await store.submit(Put(key("a"), body("a")))
    [second] = await store.submit(Put(key("a"), body("a", v="2")))
    [last] = await store.submit(Remove(key("a"), second.body))
    added, modified, deleted = await store.watch("pods", 1).batch()
    assert (added.previous, added.object) == (None, first)
    assert (modified.previous, modified.object) == (first, second)
    assert (deleted.previous, deleted.object) == (second, last)
    assert last.body["metadata"] == {"name": "a", "labels": {"v": "2"}, "resourceVersion": "4"}


async def test_an_event_is_not_seen_before_its_write_is_committed(store: Store) -> None:
    """At the moment a watcher gets a change, readers see it too and the revision has moved."""
    watch = store.watch("pods", 1)
    store.submit(Put(key("a"), body("a")))
    change = await anext(watch)
    assert store.revision == change.revision
    assert store.get(key("a")) is change.object


async def test_a_watch_sees_only_its_resource_and_namespace(store: Store) -> None:
    """Other resources and namespaces are invisible; "" watches all namespaces."""
    everywhere, here = store.watch("pods", 1), store.watch("pods", 1, "here")
    nodes = store.watch("nodes", 1)
    await store.submit(
        Put(key("a", "here"), body("a")),
        Put(key("b", "there"), body("b")),
        Put(key("n", "", "nodes"), body("n")),
        Put(key("c", "here"), body("c")),
    )
    assert [change.key.name for change in await everywhere.batch()] == ["a", "b", "c"]
    assert [change.key.name for change in await here.batch()] == ["a", "c"]
    assert [change.key.name for change in await nodes.batch()] == ["n"]


async def test_the_revision_of_a_watch_is_what_a_bookmark_may_promise(store: Store) -> None:
    """A reader that has everything of its resource is at the store's revision, else at its last."""
    quiet, busy = store.watch("nodes", 1), store.watch("pods", 1)
    await store.submit(Put(key("a"), body("a")), Put(key("b"), body("b")))
    assert (quiet.revision, busy.revision) == (3, 1)
    await anext(busy)
    assert busy.revision == 2
    await anext(busy)
    assert busy.revision == 3


async def test_a_batch_is_bounded(store: Store) -> None:
    """A reader can ask for no more than it wants at once; the rest stays for the next call."""
    await store.submit(*(Put(key(f"p{n}"), body(f"p{n}")) for n in range(5)))
    watch = store.watch("pods", 1)
    assert [len(await watch.batch(2)) for _ in range(3)] == [2, 2, 1]


async def test_a_watch_from_the_future_waits_for_it(store: Store) -> None:
    """A watch from a revision not reached yet shows only what is newer than that revision."""
    watch = store.watch("pods", since=3)
    for name in ("a", "b", "c"):
        await store.submit(Put(key(name), body(name)))
    assert told([await anext(watch)]) == [("ADDED", "c", 4)]


async def test_a_watch_from_before_the_history_is_refused(store: Store) -> None:
    """The oldest revision that a watch may start from moves with the history; older is Expired."""
    for n in range(30):
        await store.submit(Put(key("a"), body("a", n=str(n))))
    assert (store.revision, store.oldest) == (31, 11)
    with pytest.raises(Expired, match=r"too old resource version: 10 \(11\)"):
        store.watch("pods", 10)
    assert len(await store.watch("pods", 11).batch()) == 20


async def test_a_reader_that_falls_out_of_the_history_is_told(store: Store) -> None:
    """A slow reader gets Overrun instead of a gap, and its subscription is over."""
    watch = store.watch("pods", 1)
    for n in range(21):
        await store.submit(Put(key("a"), body("a", n=str(n))))
    with pytest.raises(Overrun):
        await anext(watch)
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_reader_of_a_quiet_resource_is_never_overrun_by_a_busy_one(store: Store) -> None:
    """Only changes that a reader would have seen count against it."""
    quiet = store.watch("nodes", 1)
    away = store.watch("pods", 1, "elsewhere")
    for n in range(50):
        await store.submit(Put(key("a"), body("a", n=str(n))))
    await store.submit(Put(key("n", "", "nodes"), body("n")), Put(key("p", "elsewhere"), body("p")))
    assert told([await anext(quiet)]) == [("ADDED", "n", 52)]
    assert told([await anext(away)]) == [("ADDED", "p", 53)]


async def test_closing_a_watch_or_the_store_ends_the_iteration(tmp_path: Path) -> None:
    """A reader that waits comes back when its subscription or the store is closed."""
    store = await Store.open(tmp_path)
    one, two = store.watch("pods", 1), store.watch("pods", 1)

    async def read(watch: Any) -> list[Change]:
        return [change async for change in watch]

    readers = [asyncio.create_task(read(watch)) for watch in (one, two)]
    await asyncio.sleep(0)
    one.close()
    assert await readers[0] == []
    await store.close()
    assert await readers[1] == []


async def test_a_cancelled_reader_can_go_on(store: Store) -> None:
    """Giving up a wait loses nothing: the next call continues where the last one was."""
    watch = store.watch("pods", 1)
    waiting = asyncio.create_task(watch.batch())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.submit(Put(key("a"), body("a")))
    assert told(await watch.batch()) == [("ADDED", "a", 2)]


async def test_a_watch_of_one_object_sleeps_through_the_others(store: Store) -> None:
    """Changes of other objects wake nobody, are passed over, and never make the watch too old."""
    watch = store.watch("pods", 1, name="mine")
    waiting = asyncio.create_task(watch.batch())
    await asyncio.sleep(0)
    for number in range(30):  # more than are retained
        await store.submit(Put(key(f"other-{number}"), body("other")))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert watch.revision == store.revision == 31
    await store.submit(Put(key("mine"), body("mine")), Put(key("other"), body("other")))
    assert told(await waiting) == [("ADDED", "mine", 32), ("ADDED", "other", 33)]


async def test_a_watch_of_one_object_that_is_nudged_misses_nothing(store: Store) -> None:
    """Between being woken for another reason and sleeping again, its own changes are kept."""
    watch = store.watch("pods", 1, name="mine")
    waiting = asyncio.create_task(watch.batch())
    await asyncio.sleep(0)
    watch.nudge()
    await store.submit(Put(key("other"), body("other")))
    await store.submit(Put(key("mine"), body("mine")))
    await store.submit(Put(key("other"), body("other")))
    found = await waiting + (await watch.batch() if watch.behind else [])
    assert ("ADDED", "mine", 3) in told(found)


async def test_a_line_is_encoded_once_for_all_watchers(store: Store) -> None:
    """Every watcher of the same kind gets the very same bytes object."""
    first, second = store.watch("pods", 1), store.watch("pods", 1, "default")
    await store.submit(Put(key("a"), body("a")))
    one, two = (await anext(first)).event_line(), (await anext(second)).event_line()
    assert one is two
    assert one.endswith(b"}\n")
    assert msgspec.json.decode(one) == {
        "type": "ADDED",
        "object": {"metadata": {"name": "a", "labels": {}, "resourceVersion": "2"}},
    }


async def test_an_object_that_leaves_a_selector_is_shown_as_it_was(store: Store) -> None:
    """A change told as DELETED shows the previous content at the revision of the change."""
    await store.submit(Put(key("a"), body("a", app="web")))
    await store.submit(Put(key("a"), body("a", app="other")))
    change = (await store.watch("pods", 2).batch())[0]
    assert msgspec.json.decode(change.event_line("DELETED")) == {
        "type": "DELETED",
        "object": {"metadata": {"name": "a", "labels": {"app": "web"}, "resourceVersion": "3"}},
    }
    arrived = msgspec.json.decode(change.event_line("ADDED"))
    assert arrived["object"]["metadata"]["labels"] == {"app": "other"}


async def test_old_changes_can_still_be_read_in_full(tmp_path: Path) -> None:
    """Versions far back in the history are kept as bytes; their bodies come back when asked for."""
    store = await Store.open(tmp_path)
    count = FRESH + 50
    await asyncio.gather(*(store.submit(Put(key("a"), body("a", n=str(n)))) for n in range(count)))
    await store.submit(Remove(key("a"), body("a")))
    watch = store.watch("pods", 1)
    changes = await watch.batch() + await watch.batch()
    assert [c.object.body["metadata"]["labels"]["n"] for c in changes[:count]] == [
        str(n) for n in range(count)
    ]
    assert all(
        change.previous is not None and change.previous.body == before.object.body
        for before, change in pairwise(changes)
    )
    await store.close()


async def test_every_one_of_a_thousand_watchers_gets_every_event_in_order(store: Store) -> None:
    """Fan-out is complete and ordered whatever the number of watchers."""

    async def read(watch: Any) -> list[int]:
        return [(await anext(watch)).revision for _ in range(10)]

    readers = [asyncio.create_task(read(store.watch("pods", 1))) for _ in range(1000)]
    for n in range(10):
        await store.submit(Put(key("a"), body("a", n=str(n))))
    assert await asyncio.gather(*readers) == [list(range(2, 12))] * 1000


async def test_a_follower_is_told_of_every_commit_when_it_is_on_disk(store: Store) -> None:
    """In order, each once, by the time whoever has written goes on; until it stops following."""
    await store.submit(Put(key("before"), body("before")))
    seen: list[Change] = []
    stop = store.follow(seen.extend)
    future = store.submit(Put(key("a"), body("a")), Put(key("b", resource="nodes"), body("b")))
    assert seen == []
    await future
    assert told(seen) == [("ADDED", "a", 3), ("ADDED", "b", 4)]
    stop()
    await store.submit(Remove(key("a"), body("a")))
    assert len(seen) == 2


async def test_who_has_written_goes_on_before_who_watches(store: Store) -> None:
    """A client can merge the answer into what it knows, and finds nothing new in the event."""
    order: list[str] = []

    async def watch() -> None:
        await store.watch("pods", store.revision).batch()
        order.append("watcher")

    async def write() -> None:
        await store.submit(Put(key("a"), body("a")))
        order.append("writer")

    await asyncio.gather(watch(), write())
    assert order == ["writer", "watcher"]
