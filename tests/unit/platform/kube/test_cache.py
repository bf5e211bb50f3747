"""Lists, watch events and own writes in any order: the cache never goes back in time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boilerhouse.platform.kube import cache as cache_module
from boilerhouse.platform.kube.cache import Cache, Change, by_label, by_owner
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import Key
from tests.unit.platform.kube.servers import pod

A = Key("default", "a")


def make(name: str, version: int, uid: str = "", **metadata: Any) -> Pod:
    return msgspec.convert(pod(name, version, uid, **metadata), Pod)


def listed(*items: Pod, revision: int) -> Cache[Pod]:
    cache: Cache[Pod] = Cache()
    cache.replace(cache.mark(), items, revision)
    return cache


def held(cache: Cache[Pod]) -> dict[str, str]:
    return {key.name: item.metadata.resource_version for key, item in cache.items()}


def test_an_own_write_is_there_at_once_and_its_event_changes_nothing() -> None:
    """The next decision sees what we have just written; the echo of it is no news."""
    cache = listed(make("a", 1), revision=5)
    changes: list[str] = []
    cache.observe(make("a", 7))
    cache.subscribe(lambda change: changes.append(change.type))
    cache.apply(make("a", 6))
    cache.apply(make("a", 7))
    assert held(cache) == {"a": "7"}
    assert changes == ["added"]
    cache.apply(make("a", 8))
    assert held(cache) == {"a": "8"}


def test_a_late_answer_does_not_bring_back_what_was_deleted() -> None:
    """The watch has told of the deletion at 9; the answer to our write at 7 comes after that."""
    cache = listed(make("a", 1), revision=5)
    cache.apply(make("a", 9), deleted=True)
    cache.observe(make("a", 7))
    assert held(cache) == {}


def test_an_own_deletion_is_not_undone_by_older_events() -> None:
    """Events from before it are skipped, until the watch itself tells of the deletion."""
    cache = listed(make("a", 1, "u1"), revision=5)
    cache.forget(make("a", 1, "u1"))
    cache.apply(make("a", 6, "u1"))
    assert held(cache) == {}
    cache.apply(make("a", 7, "u1"), deleted=True)
    cache.apply(make("a", 8, "u2"))
    assert held(cache) == {"a": "8"}


def test_an_object_of_the_same_name_born_later_is_another_one() -> None:
    """Deleting the old one does not take the new one away, in whichever order we hear of it."""
    cache = listed(make("a", 1, "u1"), revision=5)
    cache.observe(make("a", 8, "u2"))
    cache.apply(make("a", 7, "u1"), deleted=True)
    assert held(cache) == {"a": "8"}
    cache.forget(make("a", 1, "u1"))
    assert held(cache) == {"a": "8"}


def test_a_list_keeps_what_is_newer_than_itself() -> None:
    """A write of ours that the list could not know of yet stays; what it should know goes."""
    cache = listed(make("a", 1), make("b", 2), revision=5)
    mark = cache.mark()
    cache.observe(make("c", 9))
    cache.observe(make("a", 10))
    cache.replace(mark, [make("a", 6)], 8)
    assert held(cache) == {"a": "10", "c": "9"}


def test_a_list_asked_for_before_an_own_deletion_does_not_undo_it() -> None:
    """The object in it was alive then, and is not now."""
    cache = listed(make("a", 1, "u1"), revision=5)
    mark = cache.mark()
    cache.forget(make("a", 1, "u1"))
    cache.replace(mark, [make("a", 1, "u1")], 6)
    assert held(cache) == {}
    cache.apply(make("a", 7, "u1"), deleted=True)
    cache.replace(cache.mark(), [make("a", 8, "u2")], 8)
    assert held(cache) == {"a": "8"}


def test_a_server_restored_from_a_backup_begins_a_new_history() -> None:
    """A list older than what we knew before asking is taken as it is."""
    cache = listed(make("a", 100), make("b", 90), revision=100)
    assert not cache.replace(cache.mark(), [make("a", 40)], 50)
    assert held(cache) == {"a": "40"}
    cache.apply(make("b", 51))
    assert held(cache) == {"a": "40", "b": "51"}


def test_an_own_write_that_leaves_the_selection_takes_the_object_out() -> None:
    """It is gone at once, older events do not bring it back, and a later one does."""
    cache = listed(make("a", 1), revision=5)
    cache.observe(make("a", 8), selected=False)
    assert held(cache) == {}
    cache.apply(make("a", 7))
    assert held(cache) == {}
    cache.apply(make("a", 8), deleted=True)
    cache.apply(make("a", 9))
    assert held(cache) == {"a": "9"}


def test_an_own_write_that_returns_to_the_selection_is_there_at_once() -> None:
    """Out at 8 and back at 9, before the watch has told of either."""
    cache = listed(make("a", 1), revision=5)
    cache.observe(make("a", 8), selected=False)
    cache.observe(make("a", 9))
    cache.apply(make("a", 8), deleted=True)
    assert held(cache) == {"a": "9"}


def test_remembered_deletions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that forgets thousands of objects does not grow for ever."""
    monkeypatch.setattr(cache_module, "MAX_GONE", 10)
    cache = listed(revision=5)
    for number in range(100):
        cache.forget(make("a", 1, f"u{number}"))
    assert len(cache.mark().gone) == 10


def test_it_reads_like_a_dict() -> None:
    """By key, by a plain tuple, by iteration."""
    cache = listed(make("a", 1), make("b", 2), revision=5)
    assert cache[A] is cache[Key("default", "a")]
    assert cache.get(Key("default", "zork")) is None
    assert sorted(key.name for key in cache) == ["a", "b"]
    assert len(cache) == 2
    assert A in cache


def test_indexes_follow_every_change() -> None:
    """By label, by owner and by any function; before and after the index was made."""
    owner = {"uid": "o1", "kind": "X", "name": "x", "apiVersion": "v1"}
    cache = listed(make("a", 1, labels={"app": "x"}, ownerReferences=[owner]), revision=5)
    by_app = cache.index(by_label("app"))
    owned = cache.index(by_owner)
    letters = cache.index(lambda item: [item.metadata.name[:1]])
    cache.apply(make("b", 6, labels={"app": "x"}))
    assert [item.metadata.name for item in by_app.get("x")] == ["a", "b"]
    assert [item.metadata.name for item in owned.get("o1")] == ["a"]
    cache.apply(make("a", 7, labels={"app": "y"}))
    assert (by_app.count("x"), by_app.count("y"), owned.get("o1")) == (1, 1, [])
    cache.apply(make("b", 8, labels={"app": "x"}), deleted=True)
    assert by_app.values() == ["y"]
    assert letters.get("a") == [cache[A]]


def test_handlers_hear_of_what_is_there_and_of_every_change() -> None:
    """Added, updated, deleted, with the state before and after; until they unsubscribe."""
    cache = listed(make("a", 1), revision=5)
    heard: list[tuple[str, str | None, str | None]] = []

    def handler(change: Change[Pod]) -> None:
        old, new = (
            None if item is None else item.metadata.resource_version
            for item in (change.old, change.new)
        )
        heard.append((change.type, old, new))

    stop = cache.subscribe(handler)
    cache.apply(make("a", 6))
    cache.apply(make("a", 7), deleted=True)
    stop()
    cache.apply(make("a", 8))
    assert heard == [("added", None, "1"), ("updated", "1", "6"), ("deleted", "6", None)]


def test_one_bad_handler_does_not_blind_the_others() -> None:
    """The next handler is called and the cache stays right."""
    cache = listed(revision=5)
    heard: list[str] = []

    def bad(change: Change[Pod]) -> None:
        raise RuntimeError("oops")

    cache.subscribe(bad)
    cache.subscribe(lambda change: heard.append(change.type))
    cache.apply(make("a", 6))
    assert heard == ["added"]
    assert held(cache) == {"a": "6"}


# -- any order -----------------------------------------------------------------------------------


class World:
    """A server with a history, and one cache that hears of it late and in pieces."""

    def __init__(self) -> None:
        self.revision = 10
        self.objects: dict[str, Pod] = {}
        self.history: list[tuple[bool, Pod]] = []  # deleted, object
        self.told = 0
        self.answers: list[tuple[bool, Pod]] = []  # own writes not yet seen by us
        self.births = 0
        self.cache: Cache[Pod] = Cache()
        self.newest: dict[str, int] = {}  # per UID, the newest version the cache has shown
        self.gone: set[str] = set()  # UIDs whose deletion the cache has shown
        self.violations: list[str] = []  # a handler cannot raise: the cache would catch it
        self.cache.replace(self.cache.mark(), [], self.revision)
        self.cache.subscribe(self.check)
        self.asked: tuple[Any, list[Pod], int] | None = None

    def check(self, change: Change[Pod]) -> None:
        """Never is an older state of an object shown after a newer one, nor a dead one."""
        if change.new is not None:
            uid, version = change.new.metadata.uid, int(change.new.metadata.resource_version)
            if version <= self.newest.get(uid, 0):
                self.violations.append(f"{uid} went back to {version}")
            if uid in self.gone:
                self.violations.append(f"{uid} came back from the dead at {version}")
            self.newest[uid] = version
        elif change.old is not None:
            self.gone.add(change.old.metadata.uid)

    def write(self, name: str, own: bool) -> None:
        self.revision += 1
        old = self.objects.get(name)
        self.births += old is None
        uid = old.metadata.uid if old is not None else f"u{self.births}"
        item = make(name, self.revision, uid)
        self.objects[name] = item
        self._happened(False, item, own)

    def delete(self, name: str, own: bool) -> None:
        old = self.objects.pop(name, None)
        if old is not None:
            self.revision += 1
            self._happened(True, make(name, self.revision, old.metadata.uid), own)

    def _happened(self, deleted: bool, item: Pod, own: bool) -> None:
        self.history.append((deleted, item))
        if own:
            self.answers.append((deleted, item))

    def tell(self, number: int) -> None:
        if self.asked is not None:
            return  # the informer does one at a time
        for deleted, item in self.history[self.told : self.told + number]:
            self.cache.apply(item, deleted=deleted)
            self.told += 1

    def answer(self, which: int) -> None:
        if self.answers:
            deleted, item = self.answers.pop(which % len(self.answers))
            if deleted:
                self.cache.forget(item)
            else:
                self.cache.observe(item)

    def ask(self) -> None:
        self.asked = (self.cache.mark(), list(self.objects.values()), self.revision)

    def listed(self) -> None:
        if self.asked is not None:
            mark, items, revision = self.asked
            self.asked = None
            assert self.cache.replace(mark, items, revision)
            self.told = next(
                (
                    n
                    for n, (_, item) in enumerate(self.history)
                    if int(item.metadata.resource_version) > revision
                ),
                len(self.history),
            )


NAMES = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.booleans()),
    st.tuples(st.just("delete"), NAMES, st.booleans()),
    st.tuples(st.just("tell"), st.integers(1, 3)),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(st.just("ask")),
    st.tuples(st.just("listed")),
)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_in_any_order_the_cache_moves_forward_and_arrives(steps: list[tuple[Any, ...]]) -> None:
    """Whatever the interleaving: no step back on the way, and in the end the server's state."""
    world = World()
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    world.listed()
    world.tell(len(world.history))
    while world.answers:
        world.answer(0)
    assert world.violations == []
    assert dict(world.cache.items()) == {
        Key("default", name): item for name, item in world.objects.items()
    }
