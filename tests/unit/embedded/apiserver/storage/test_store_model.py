"""The store against a model of it: any sequence of writes and restarts, with a history of a few."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boilerhouse.embedded.apiserver.storage import store as store_module
from boilerhouse.embedded.apiserver.storage.store import Expired, Key, Put, Remove, Store

pytestmark = pytest.mark.slow

NAMES = st.sampled_from([Key("pods", "x", "a"), Key("pods", "y", "a"), Key("nodes", "", "n")])
TRANSACTION = st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=4)
STEPS = st.lists(st.one_of(TRANSACTION, st.just("restart")), max_size=25)


class Model:
    """All objects and all changes ever, the way a reader would tell them."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[Key, int] = {}
        self.changes: list[tuple[int, str, Key, int | None]] = []

    def write(self, transaction: list[tuple[Key, bool]]) -> list[Put | Remove]:
        """Record what a transaction does and return it; removals of nothing become writes."""
        writes: list[Put | Remove] = []
        for key, remove in transaction:
            self.revision += 1
            previous = self.objects.get(key)
            body: dict[str, Any] = {"metadata": {"name": key.name}, "was": previous}
            if remove and previous is not None:
                kind = "DELETED"
                writes.append(Remove(key, body))
                del self.objects[key]
            else:
                kind = "ADDED" if previous is None else "MODIFIED"
                writes.append(Put(key, body))
                self.objects[key] = self.revision
            self.changes.append((self.revision, kind, key, previous))
        return writes

    def objects_at(self, revision: int) -> dict[Key, int]:
        state: dict[Key, int] = {}
        for at, kind, key, _ in self.changes:
            if at <= revision:
                state[key] = at
                if kind == "DELETED":
                    del state[key]
        return state


async def compare(store: Store, model: Model, limit: int) -> None:
    assert store.revision == model.revision
    for resource in ("pods", "nodes"):
        expected = {k: r for k, r in model.objects.items() if k.resource == resource}
        for found in (store.scan(resource), store.scan_head(resource)):
            assert {s.key: s.revision for s in found} == expected
            assert all(s.body["metadata"]["resourceVersion"] == str(s.revision) for s in found)
    retained = model.changes[-limit:]
    assert store.oldest == (retained[0][0] - 1 if len(model.changes) > limit else 1)
    with pytest.raises(Expired):
        store.watch("pods", store.oldest - 1)
    for resource, namespace in (("pods", ""), ("pods", "x"), ("nodes", "")):
        wanted = [
            change
            for change in retained
            if change[2].resource == resource and namespace in ("", change[2].namespace)
        ]
        watch = store.watch(resource, store.oldest, namespace)
        changes = await watch.batch() if wanted else []
        assert watch.revision == store.revision
        told = [
            (c.revision, c.type, c.key, c.previous.revision if c.previous else None)
            for c in changes
        ]
        assert told == wanted
        assert all(
            change.object.body["was"] == what[3]
            for change, what in zip(changes, wanted, strict=True)
        )
    for revision in range(store.oldest, store.revision + 1):
        then = {s.key: s.revision for s in store.scan_at("pods", revision)}
        state = model.objects_at(revision)
        assert then == {k: r for k, r in state.items() if k.resource == "pods"}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, limit=st.integers(1, 6), trim_at=st.integers(1, 4))
def test_any_sequence_of_writes_and_restarts_agrees_with_the_model(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any], limit: int, trim_at: int
) -> None:
    """Objects, retained changes, what they replaced, and past states are those of the model."""
    monkeypatch.setattr(store_module, "TRIM_AT", trim_at)

    async def play(directory: Path) -> None:
        model = Model()
        store = await Store.open(directory, history=limit)
        for step in steps:
            if step == "restart":
                await store.close()
                store = await Store.open(directory, history=limit)
            else:
                await store.submit(*model.write(step))
            await compare(store, model, limit)
        await store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(Path(directory)))
