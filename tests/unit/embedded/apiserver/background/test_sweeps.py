"""What the server does by itself: owners, namespaces, and carrying on after a restart."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.apiserver.background import expiry
from boilerhouse.embedded.apiserver.storage import store as store_module
from boilerhouse.embedded.apiserver.storage.change import Stored
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Remove
from boilerhouse.embedded.apiserver.verbs import listing
from tests.contract.driver import Api
from tests.contract.objects import crd, owned
from tests.unit.embedded.apiserver.conftest import Embedded, Start

Body = dict[str, Any]


def config_map(name: str, **metadata: Any) -> Body:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, **metadata}}


async def test_a_thousand_dependents_go_with_their_owner(api: Api) -> None:
    """Collecting many costs few commits: it is done in a moment."""
    owner = (await api.create("configmaps", config_map("owner"))).ok()
    made = [api.create("configmaps", owned(config_map(f"d{n}"), owner)) for n in range(1000)]
    await asyncio.gather(*made)
    (await api.delete("configmaps", "owner")).ok()

    async def none_left() -> bool:
        return await api.names("configmaps") == []

    await api.until(none_left, timeout=10)


MANY = 1500


async def filled(embedded: Embedded, namespace: str) -> None:
    """Store ConfigMaps past the API: it is about how they go."""
    for number in range(MANY):
        name = f"c{number}"
        body = config_map(name, namespace=namespace, uid=name)
        await embedded.store.submit(Put(Key("configmaps", namespace, name), body), deferred=True)
    await embedded.store.flush()


async def test_a_collection_larger_than_the_store_takes_at_once_is_deleted(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it goes, the answer has all of it, and writes in the midst of it are not refused."""
    api = embedded.api
    await filled(embedded, "default")
    monkeypatch.setattr(store_module, "MAX_PENDING", 100)
    deleting = asyncio.create_task(api.call("DELETE", api.path("configmaps")))
    written = 0
    while not deleting.done():
        (await api.create("secrets", {"metadata": {"name": f"s{written}"}})).ok()
        written += 1
    assert len((await deleting).ok()["items"]) == MANY
    assert await api.names("configmaps") == []
    assert written > 5, "others had their turn"


@pytest.mark.parametrize(
    ("accept", "selector", "times"),
    [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "", 1),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "", 1),
        ("application/json", "", 1),
        ("application/json", "!absent", 2),
    ],
)
async def test_a_long_list_is_made_in_turns(
    embedded: Embedded, accept: str, selector: str, times: int
) -> None:
    """Every object is there once, and others have the event loop meanwhile, `times` over."""
    api, turns = embedded.api, 0
    await filled(embedded, "default")

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    query = {"labelSelector": selector}
    answer = (await api.call("GET", api.path("configmaps"), query=query, accept=accept)).ok()
    task.cancel()
    rows = [row.get("object", row) for row in answer.get("rows") or answer["items"]]
    assert len({row["metadata"]["name"] for row in rows}) == len(rows) == MANY
    assert turns >= times * (MANY // listing.IN_TURN - 1)


async def test_a_namespace_with_more_than_the_store_takes_at_once_goes(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is emptied in batches, and then it is gone; it can be listed and watched meanwhile."""
    api = embedded.api
    (await api.create("namespaces", {"metadata": {"name": "full"}})).ok()
    await filled(embedded, "full")
    watch = embedded.store.watch("configmaps", embedded.store.revision, "full")
    monkeypatch.setattr(store_module, "MAX_PENDING", 100)
    (await api.delete("namespaces", "full")).ok()
    for _ in range(MANY):
        assert (await anext(watch)).type == "DELETED"
    await api.gone("namespaces", "full", timeout=30)


async def test_a_definition_with_more_objects_than_the_store_takes_at_once_goes(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = embedded.api
    definition = crd("widgets", "Widget", {"type": "object"})
    (await api.create("customresourcedefinitions", definition)).ok()
    resource = definition["metadata"]["name"]
    await api.until(lambda: _served(api), timeout=10)
    for number in range(MANY):
        body = {
            "kind": "Widget",
            "apiVersion": "contract.example.com/v1",
            "metadata": {"name": f"w{number}", "namespace": "default", "uid": f"w{number}"},
        }
        key = Key(resource, "default", f"w{number}")
        await embedded.store.submit(Put(key, body), deferred=True)
    await embedded.store.flush()
    monkeypatch.setattr(store_module, "MAX_PENDING", 100)
    (await api.delete("customresourcedefinitions", resource)).ok()
    await api.gone("customresourcedefinitions", resource, timeout=30)
    assert embedded.store.scan(resource) == []


async def _served(api: Api) -> bool:
    return (await api.call("GET", api.path("widgets"))).code == 200


async def test_dependents_of_an_owner_lost_while_we_were_away(start: Start) -> None:
    """At the start everything is looked at once, so no orphan survives a crash."""
    async with start() as embedded:
        owner = (await embedded.api.create("configmaps", config_map("owner"))).ok()
        await embedded.api.create("configmaps", owned(config_map("d"), owner))
        await embedded.server.stop()
        # What a crash between the two deletes leaves behind.
        await embedded.store.submit(Remove(Key("configmaps", "default", "owner"), owner))
    async with start() as embedded:
        await embedded.api.gone("configmaps", "d", timeout=5)


async def test_a_chain_in_the_foreground_goes_from_its_end(api: Api) -> None:
    """The owner waits for a dependent that blocks it, and that for its own."""
    top = (await api.create("configmaps", config_map("top"))).ok()
    middle = owned(config_map("middle"), top, block=True)
    stored = (await api.create("configmaps", middle)).ok()
    end = owned(config_map("end", finalizers=["x/y"]), stored, block=True)
    await api.create("configmaps", end)
    (await api.delete("configmaps", "top", {"propagationPolicy": "Foreground"})).ok()

    async def end_is_dying() -> bool:
        metadata = (await api.get("configmaps", "end")).ok()["metadata"]
        return "deletionTimestamp" in metadata

    await api.until(end_is_dying, timeout=5)
    for name in ("top", "middle"):
        metadata = (await api.get("configmaps", name)).ok()["metadata"]
        assert metadata["finalizers"] == ["foregroundDeletion"]
    await api.patch("configmaps", "end", {"metadata": {"finalizers": None}})
    await api.gone("configmaps", "top", timeout=5)
    assert await api.names("configmaps") == []


async def test_one_living_owner_is_enough(api: Api) -> None:
    """The reference to the owner that went is dropped, the object stays."""
    first = (await api.create("configmaps", config_map("first"))).ok()
    second = (await api.create("configmaps", config_map("second"))).ok()
    body = owned(config_map("d"), first)
    body["metadata"]["ownerReferences"] += owned(config_map("d"), second)["metadata"][
        "ownerReferences"
    ]
    await api.create("configmaps", body)
    (await api.delete("configmaps", "first")).ok()

    async def unlinked() -> bool:
        return len((await api.get("configmaps", "d")).ok()["metadata"]["ownerReferences"]) == 1

    await api.until(unlinked, timeout=5)


async def test_an_owner_of_an_unknown_kind_proves_nothing(embedded: Embedded) -> None:
    """What cannot be looked up is not absent: the dependent is left alone."""
    api = embedded.api
    owner = {"apiVersion": "gone.dev/v1", "kind": "Gone", "metadata": {"name": "x", "uid": "u"}}
    await api.create("configmaps", owned(config_map("d"), owner))
    other = (await api.create("configmaps", config_map("marker-owner"))).ok()
    await api.create("configmaps", owned(config_map("marker"), other))
    await api.delete("configmaps", "marker-owner")
    await api.gone("configmaps", "marker", timeout=5)
    assert (await api.get("configmaps", "d")).code == 200


async def test_a_namespace_goes_on_terminating_after_a_restart(start: Start) -> None:
    """The sweep waits for a finalizer, over a restart, and ends when it is gone."""
    async with start() as embedded:
        (await embedded.api.create("namespaces", {"metadata": {"name": "n"}})).ok()
        inside = Api(embedded.api.transport, "n")
        await inside.create("configmaps", config_map("held", finalizers=["x/y"]))
        (await embedded.api.delete("namespaces", "n")).ok()
    async with start() as embedded:
        inside = Api(embedded.api.transport, "n")
        namespace = (await embedded.api.get("namespaces", "n")).ok()
        assert namespace["status"]["phase"] == "Terminating"

        async def explained() -> bool:
            status = (await embedded.api.get("namespaces", "n")).ok()["status"]
            messages = [c["message"] for c in status.get("conditions", ())]
            return any("x/y in 1 resource instances" in message for message in messages)

        await embedded.api.until(explained, timeout=5)
        await inside.patch("configmaps", "held", {"metadata": {"finalizers": None}})
        await embedded.api.gone("namespaces", "n", timeout=5)


async def test_every_namespace_has_its_account(api: Api) -> None:
    """The default account is there with its namespace, and comes back when it is deleted."""
    (await api.create("namespaces", {"metadata": {"name": "n"}})).ok()
    inside = Api(api.transport, "n")
    first = (await inside.get("serviceaccounts", "default")).ok()
    (await inside.delete("serviceaccounts", "default")).ok()

    async def back() -> bool:
        answer = await inside.get("serviceaccounts", "default")
        return answer.code == 200 and answer.ok()["metadata"]["uid"] != first["metadata"]["uid"]

    await api.until(back, timeout=5)


async def test_an_owner_becomes_known_with_its_definition(api: Api) -> None:
    """A dependent of a kind that nobody knew is judged once the kind is served."""
    owner = {"apiVersion": "x.dev/v1", "kind": "Late", "metadata": {"name": "x", "uid": "u"}}
    await api.create("configmaps", owned(config_map("d"), owner))
    definition = crd("lates", "Late", {"type": "object"}, group="x.dev")
    (await api.create("customresourcedefinitions", definition)).ok()
    await api.gone("configmaps", "d", timeout=5)


async def test_events_go_after_an_hour_unless_repeated(start: Start) -> None:
    """The last time counts by which an Event was heard of."""
    clock = FakeClock(datetime(2026, 5, 1, 12, tzinfo=UTC))
    event = {"kind": "Event", "apiVersion": "v1", "involvedObject": {"namespace": "default"}}
    async with start(clock=clock) as embedded:
        api = embedded.api
        repeated = {"lastTimestamp": "2026-05-01T12:30:00Z"}
        (await api.create("events", {**event, "metadata": {"name": "once"}})).ok()
        (await api.create("events", {**event, "metadata": {"name": "again"}, **repeated})).ok()
        clock.advance(timedelta(minutes=61))
    async with start(clock=clock) as embedded:
        await embedded.api.gone("events", "once", timeout=5)
        assert await embedded.api.names("events") == ["again"]


async def test_events_are_kept_by_number(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above it those written longest ago go, and one namespace leaves room for the others."""
    monkeypatch.setattr(expiry, "MADE", 10)
    keep = partial(expiry.surplus, most=30, most_of_namespace=20)
    monkeypatch.setattr(expiry, "surplus", keep)
    event = {"kind": "Event", "apiVersion": "v1", "involvedObject": {"namespace": "default"}}
    async with start() as embedded:
        api = embedded.api
        for name in ("first", "kept"):
            (await api.create("events", {**event, "metadata": {"name": name}})).ok()
        for number in range(18):
            (await api.create("events", {**event, "metadata": {"name": f"e{number:03}"}})).ok()
        (await api.patch("events", "kept", {"count": 2})).ok()
        for number in range(18, 28):
            (await api.create("events", {**event, "metadata": {"name": f"e{number:03}"}})).ok()

        async def fewer() -> bool:
            return len(await api.names("events")) <= 20

        await api.until(fewer, timeout=10)
        names = await api.names("events")
        assert "kept" in names and "first" not in names and "e027" in names


def test_the_surplus_of_events_is_the_oldest() -> None:
    """In all, and of the namespace that has too many."""

    def of(namespace: str, revision: int) -> Stored:
        return Stored(Key("events", namespace, f"e{revision}"), revision, {}, b"")

    loud = [of("loud", revision) for revision in range(100, 110)]
    quiet = [of("quiet", revision) for revision in range(3)]
    assert expiry.surplus([*loud, *quiet], 100, 100) == []
    assert expiry.surplus([*loud, *quiet], 20, 8) == [loud[1], loud[0]]
    assert expiry.surplus([*loud, *quiet], 9, 8) == [loud[1], loud[0], quiet[1], quiet[0]]


async def test_nobody_lets_go_of_a_namespace_by_the_way(api: Api) -> None:
    """What holds a namespace, its label and its phase are not a client's to change."""
    (await api.create("namespaces", {"metadata": {"name": "n"}})).ok()
    change = {"spec": {"finalizers": None}, "metadata": {"labels": None}}
    patched = (await api.patch("namespaces", "n", change)).ok()
    assert patched["spec"] == {"finalizers": ["kubernetes"]}
    assert patched["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    answer = await api.patch("namespaces", "n", {"status": {"phase": "Terminating"}}, "status")
    assert answer.causes() == {("status.Phase", "FieldValueInvalid")}
