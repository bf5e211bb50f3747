"""Reading and writing: what is visible when, in which order, and what a caller may do wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from boilerhouse.embedded.apiserver.storage import store as store_module
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Remove, Store, StoreFailed


def pod(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def body(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data")
    yield opened
    await opened.close()


async def test_an_empty_store_has_a_revision_a_list_can_carry(store: Store) -> None:
    """The first revision is 1, because "0" means something else to a Kubernetes client."""
    assert (store.revision, store.oldest) == (1, 1)
    assert store.scan("pods") == []
    assert store.get(pod("a")) is None


async def test_a_write_is_stamped_with_its_revision(store: Store) -> None:
    """The stored body and its JSON carry the revision as metadata.resourceVersion."""
    [stored] = await store.submit(Put(pod("a"), body("a", size=1)))
    assert stored.revision == 2
    assert stored.body == {
        "kind": "Pod",
        "metadata": {"name": "a", "resourceVersion": "2"},
        "spec": {"size": 1},
    }
    assert msgspec.json.decode(stored.raw) == stored.body


async def test_the_callers_body_is_left_alone(store: Store) -> None:
    """Stamping works on a copy: the dicts handed in do not change."""
    given = body("a")
    await store.submit(Put(pod("a"), given))
    assert given == body("a")


async def test_a_write_shows_in_the_head_at_once_and_to_readers_after_the_commit(
    store: Store,
) -> None:
    """`head` has a submitted write at once; `get`, `scan` and `revision` wait for the disk."""
    writing = store.submit(Put(pod("a"), body("a")))
    head = store.head(pod("a"))
    assert head is not None
    assert [s.key.name for s in store.scan_head("pods")] == ["a"]
    assert store.get(pod("a")) is None
    assert store.scan("pods") == []
    assert store.revision == 1
    assert await writing == [head]
    assert store.get(pod("a")) is head
    assert store.revision == head.revision == 2


async def test_a_removal_shows_in_the_head_at_once_and_to_readers_after_the_commit(
    store: Store,
) -> None:
    """A deleted object is gone from the head synchronously and from readers after the commit."""
    await store.submit(Put(pod("a"), body("a")))
    removing = store.submit(Remove(pod("a"), body("a")))
    assert store.head(pod("a")) is None
    assert store.scan_head("pods") == []
    assert store.get(pod("a")) is not None
    [last] = await removing
    assert last.body["metadata"]["resourceVersion"] == "3"
    assert store.get(pod("a")) is None
    assert store.scan("pods") == []


async def test_a_transaction_is_visible_whole_or_not_at_all(store: Store) -> None:
    """Several writes of one submit get consecutive revisions and appear in the same instant."""
    await store.submit(Put(pod("old"), body("old")))
    seen: list[set[str]] = []

    async def look() -> None:
        while store.get(pod("b")) is None:
            seen.append({s.key.name for s in store.scan("pods")})
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    stored = await store.submit(
        Put(pod("a"), body("a")), Remove(pod("old"), body("old")), Put(pod("b"), body("b"))
    )
    await looking
    assert [s.revision for s in stored] == [3, 4, 5]
    assert all(names == {"old"} for names in seen)
    assert [s.key.name for s in store.scan("pods")] == ["a", "b"]


async def test_writes_to_one_key_in_one_transaction_apply_in_order(store: Store) -> None:
    """A transaction may create, delete and create again; the last one stands."""
    await store.submit(
        Put(pod("a"), body("a", turn=1)),
        Remove(pod("a"), body("a")),
        Put(pod("a"), body("a", turn=2)),
    )
    watch = store.watch("pods", 1)
    assert [(change.type, change.revision) for change in await watch.batch()] == [
        ("ADDED", 2),
        ("DELETED", 3),
        ("ADDED", 4),
    ]
    stored = store.get(pod("a"))
    assert stored is not None
    assert stored.body["spec"] == {"turn": 2}


async def test_concurrent_writers_get_distinct_revisions_in_submit_order(store: Store) -> None:
    """However the disk batches them, revisions follow the order of submit calls."""
    writes = [store.submit(Put(pod(f"p{n}"), body(f"p{n}"))) for n in range(700)]
    stored = [one for result in await asyncio.gather(*writes) for one in result]
    assert [s.revision for s in stored] == list(range(2, 702))
    assert store.revision == 701


async def test_a_scan_of_the_past_undoes_what_came_after(store: Store) -> None:
    """Additions, changes and removals after a retained revision do not show in its list."""
    for name in ("a", "b"):
        await store.submit(Put(pod(name, "x"), body(name)))
    then = store.revision
    before = store.scan("pods", "x")
    await store.submit(Put(pod("a", "x"), body("a2")))
    await store.submit(Remove(pod("b", "x"), body("b")))
    await store.submit(Put(pod("c", "x"), body("c")))
    await store.submit(Put(pod("b", "x"), body("b3")))
    assert store.scan_at("pods", then, "x") == before
    assert store.scan_at("pods", store.revision, "x") == store.scan("pods", "x")


async def test_a_scan_is_sorted_by_path(store: Store) -> None:
    """Objects come in the order of `namespace/name`; a namespace is not a prefix of another."""
    for key in (pod("b", "x-y"), pod("a", "x"), pod("c", "x"), pod("b", "x"), pod("z", "")):
        await store.submit(Put(key, body(key.name)))
    assert [s.key[1:] for s in store.scan("pods")] == [
        ("", "z"),
        ("x-y", "b"),
        ("x", "a"),
        ("x", "b"),
        ("x", "c"),
    ]
    assert [s.key.name for s in store.scan("pods", "x")] == ["a", "b", "c"]
    assert [s.key.name for s in store.scan_head("pods", "x-y")] == ["b"]
    assert store.scan("pods", "nowhere") == []
    assert store.scan("services") == []


async def test_removing_what_is_not_there_is_refused_and_changes_nothing(store: Store) -> None:
    """A removal that the head cannot honour raises, and its transaction does not happen."""
    with pytest.raises(ValueError, match="pods/default/ghost is not there"):
        store.submit(Put(pod("a"), body("a")), Remove(pod("ghost"), body("ghost")))
    assert store.head(pod("a")) is None
    [stored] = await store.submit(Put(pod("b"), body("b")))
    assert stored.revision == 2


async def test_a_refused_transaction_leaves_every_object_as_it_was(store: Store) -> None:
    """What was written, written again and removed before the refusal is what it was."""
    a, b = await store.submit(Put(pod("a"), body("a")), Put(pod("b"), body("b")))
    with pytest.raises(ValueError, match="is not there"):
        store.submit(
            Put(pod("a"), body("a")),
            Remove(pod("a"), body("a")),
            Put(pod("a"), body("a")),
            Remove(pod("b"), body("b")),
            Remove(pod("b"), body("b")),
        )
    assert (store.head(pod("a")), store.head(pod("b"))) == (a, b)
    assert store.scan_head("pods") == [a, b]


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (pod("a"), {"metadata": {"name": "a"}, "spec": object()}),
        (pod("\ud800"), {"metadata": {"name": "a"}}),
        (pod("a"), {"metadata": None}),
    ],
    ids=["not JSON", "not Unicode", "no metadata"],
)
async def test_what_cannot_be_stored_raises_at_once_and_harms_nobody_else(
    store: Store, key: Key, content: dict[str, Any]
) -> None:
    """A body that cannot be written is the caller's error; writes around it succeed."""
    before = store.submit(Put(pod("before"), body("before")))
    with pytest.raises((TypeError, UnicodeEncodeError)):
        store.submit(Put(key, content))
    after = store.submit(Put(pod("after"), body("after")))
    await asyncio.gather(before, after)
    assert [s.key.name for s in store.scan("pods")] == ["after", "before"]


async def test_a_cancelled_caller_does_not_undo_its_write(store: Store) -> None:
    """A submitted write happens whether or not someone still waits for it."""
    store.submit(Put(pod("a"), body("a"))).cancel()
    await store.submit(Put(pod("b"), body("b")))
    assert [s.key.name for s in store.scan("pods")] == ["a", "b"]


async def test_an_empty_transaction_waits_for_what_was_submitted_before(store: Store) -> None:
    """`await submit()` changes nothing and returns when the head of that moment is on disk."""
    store.submit(Put(pod("a"), body("a")))
    unsettled = [store.unsettled]
    assert await store.flush() == []
    unsettled.append(store.unsettled)
    assert unsettled == [True, False]
    assert store.get(pod("a")) is store.head(pod("a"))
    assert store.revision == 2


async def test_too_many_waiting_writes_are_turned_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit a write fails at once, leaves the head alone, and later ones work again."""
    monkeypatch.setattr(store_module, "MAX_PENDING", 3)
    accepted = [store.submit(Put(pod(f"p{n}"), body(f"p{n}"))) for n in range(3)]
    refused = store.submit(Put(pod("late"), body("late")))
    assert store.head(pod("late")) is None
    with pytest.raises(StoreFailed, match="busy: 3 writes wait"):
        await refused
    await asyncio.gather(*accepted)
    await store.submit(Put(pod("late"), body("late")))
    assert len(store.scan("pods")) == 4


async def test_too_many_waiting_bytes_are_turned_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts bytes too, and they are given back when the writes are done."""
    monkeypatch.setattr(store_module, "MAX_PENDING_BYTES", 1000)
    big = store.submit(Put(pod("a"), body("a", text="x" * 1000)))
    with pytest.raises(StoreFailed, match="busy"):
        await store.submit(Put(pod("b"), body("b")))
    await big
    await store.submit(Put(pod("b"), body("b")))


async def test_closing_finishes_what_was_submitted_and_refuses_the_rest(tmp_path: Path) -> None:
    """close() waits for the disk; a write after it fails and says why; closing twice is fine."""
    store = await Store.open(tmp_path)
    writes = [store.submit(Put(pod(f"p{n}"), body(f"p{n}"))) for n in range(50)]
    await store.close()
    await store.close()
    assert all(write.done() for write in writes)
    with pytest.raises(StoreFailed, match="the store is closed"):
        await store.submit(Put(pod("late"), body("late")))
    assert len(store.scan("pods")) == 50


async def test_an_abandoned_open_gives_the_directory_back(tmp_path: Path) -> None:
    """Cancelling `open` half way leaves no lock behind."""
    opening = asyncio.create_task(Store.open(tmp_path))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    while True:
        try:
            store = await Store.open(tmp_path)
        except store_module.StoreLocked:
            await asyncio.sleep(0.01)
        else:
            break
    await store.close()
