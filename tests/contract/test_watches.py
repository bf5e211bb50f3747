"""Watches: where they start, what they leave out, how they end."""

from __future__ import annotations

import asyncio

import pytest

from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.wire import Request
from tests.api_fixture import World
from tests.contract.driver import Api, Events
from tests.contract.objects import config_map, pod, widget


async def _version(api: Api, resource: str = "configmaps") -> str:
    version: str = (await api.get(resource)).ok()["metadata"]["resourceVersion"]
    return version


async def test_every_change_once_and_in_order(api: Api) -> None:
    """A watch from a list's version sees each later change, with the object as it then was."""
    version = await _version(api)
    async with api.watch("configmaps", resourceVersion=version) as events:
        created = (await api.create("configmaps", config_map("a", x="1"))).ok()
        assert await events.next() == ("ADDED", created)
        changed = (await api.patch("configmaps", "a", {"data": {"x": "2"}})).ok()
        assert await events.next() == ("MODIFIED", changed)
        (await api.delete("configmaps", "a")).ok()
        kind, last = await events.next()
        assert (kind, last["data"]) == ("DELETED", {"x": "2"})
        newest = int(last["metadata"]["resourceVersion"])
        assert newest > int(changed["metadata"]["resourceVersion"])


async def test_a_watch_catches_up(api: Api) -> None:
    """What happened between the list and the watch is delivered first."""
    version = await _version(api)
    (await api.create("configmaps", config_map("a"))).ok()
    (await api.patch("configmaps", "a", {"data": {"x": "1"}})).ok()
    (await api.delete("configmaps", "a")).ok()
    (await api.create("configmaps", config_map("b"))).ok()
    async with api.watch("configmaps", resourceVersion=version) as events:
        assert await events.take(4) == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
            ("ADDED", "b"),
        ]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_without_a_version_what_exists_comes_first(api: Api, query: dict[str, str]) -> None:
    """No version, or "0", means: first an ADDED for all that is there."""
    for name in ("a", "b"):
        (await api.create("configmaps", config_map(name))).ok()
    await asyncio.sleep(0.1)  # "0" may be served by a cache that is a moment behind
    async with api.watch("configmaps", **query) as events:
        assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        (await api.create("configmaps", config_map("c"))).ok()
        assert await events.take(1) == [("ADDED", "c")]


async def test_a_watch_of_one_namespace(api: Api) -> None:
    """Changes elsewhere are not seen."""
    other = f"{api.namespace}-b"
    (await api.create("namespaces", {"metadata": {"name": other}})).ok()
    version = await _version(api)
    path = api.path("configmaps", namespace=other)
    (await api.call("POST", path, config_map("elsewhere"))).ok()
    (await api.create("configmaps", config_map("here"))).ok()
    async with api.watch("configmaps", resourceVersion=version) as events:
        assert await events.take(1) == [("ADDED", "here")]


async def test_selection_turns_changes_into_comings_and_goings(api: Api) -> None:
    """An object that starts to match is ADDED, one that stops is DELETED as it last matched."""
    version = await _version(api)
    async with api.watch("configmaps", resourceVersion=version, labelSelector="on=yes") as events:
        (await api.create("configmaps", config_map("a", {"on": "no"}, x="1"))).ok()
        (await api.patch("configmaps", "a", {"metadata": {"labels": {"on": "yes"}}})).ok()
        (await api.patch("configmaps", "a", {"data": {"x": "2"}})).ok()
        patch = {"metadata": {"labels": {"on": "no"}}, "data": {"x": "3"}}
        stopped = (await api.patch("configmaps", "a", patch)).ok()
        (await api.patch("configmaps", "a", {"data": {"x": "4"}})).ok()
        (await api.delete("configmaps", "a")).ok()
        (await api.create("configmaps", config_map("z", {"on": "yes"}))).ok()
        seen = [await events.next() for _ in range(4)]
    assert [(kind, body["metadata"]["name"]) for kind, body in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "z"),
    ]
    gone = seen[2][1]
    assert (gone["data"], gone["metadata"]["labels"]) == ({"x": "2"}, {"on": "yes"})
    # The version is that of the change which ended the match, so that a watch can go on from it.
    assert gone["metadata"]["resourceVersion"] == stopped["metadata"]["resourceVersion"]


async def test_field_selectors_in_watches(api: Api) -> None:
    """A Pod leaves a watch on its phase when the phase moves."""
    version = await _version(api, "pods")
    selector = "status.phase=Pending"
    async with api.watch("pods", resourceVersion=version, fieldSelector=selector) as events:
        (await api.create("pods", pod("a"))).ok()
        (await api.patch("pods", "a", {"status": {"phase": "Running"}}, "status")).ok()
        assert await events.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_of_one_name(api: Api) -> None:
    """metadata.name selects one object of a watch."""
    version = await _version(api)
    async with api.watch(
        "configmaps", resourceVersion=version, fieldSelector="metadata.name=b"
    ) as events:
        for name in ("a", "b"):
            (await api.create("configmaps", config_map(name))).ok()
        assert await events.take(1) == [("ADDED", "b")]


async def test_custom_resources_are_watched_too(api: Api) -> None:
    """The same for kinds that came by a definition."""
    version = await _version(api, "widgets")
    async with api.watch("widgets", resourceVersion=version) as events:
        created = (await api.create("widgets", widget("a"))).ok()
        assert await events.next() == ("ADDED", created)
        (await api.patch("widgets", "a", {"status": {"phase": "x"}}, "status")).ok()
        kind, body = await events.next()
        assert (kind, body["status"]) == ("MODIFIED", {"phase": "x"})


async def test_a_write_that_changes_nothing_is_no_event(api: Api) -> None:
    """Nothing changed, nothing is told."""
    created = (await api.create("configmaps", config_map("a"))).ok()
    version = created["metadata"]["resourceVersion"]
    (await api.update("configmaps", created)).ok()
    (await api.create("configmaps", config_map("b"))).ok()
    async with api.watch("configmaps", resourceVersion=version) as events:
        assert await events.take(1) == [("ADDED", "b")]


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    """sendInitialEvents gives all there is, then a bookmark that says so, then changes."""
    for name in ("a", "b"):
        (await api.create("configmaps", config_map(name))).ok()
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch("configmaps", **query) as events:
        assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        kind, mark = await events.next()
        assert kind == "BOOKMARK"
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
        (await api.create("configmaps", config_map("c"))).ok()
        assert await events.take(1) == [("ADDED", "c")]
    version = mark["metadata"]["resourceVersion"]
    async with api.watch("configmaps", resourceVersion=version) as events:
        assert await events.take(1) == [("ADDED", "c")]


async def test_initial_events_of_nothing(api: Api) -> None:
    """With nothing there the bookmark comes at once."""
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch("widgets", **query) as events:
        kind, mark = await events.next()
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
async def test_bad_combinations_of_watch_options(api: Api, query: dict[str, str]) -> None:
    """Options that contradict each other are refused before anything is streamed."""
    answer = await api.get("configmaps", watch="true", **query)
    assert answer.code == 422
    assert answer.body["reason"] == "Invalid"


async def test_initial_events_are_for_watches(api: Api) -> None:
    """A list has no initial events."""
    answer = await api.get("configmaps", sendInitialEvents="true")
    assert answer.code == 422


@pytest.mark.soak
async def test_bookmarks(api: Api) -> None:
    """A watch whose objects are quiet learns about every minute how far the others have come."""
    version = await _version(api)
    query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": 90}
    async with api.watch("configmaps", labelSelector="of=interest", **query) as events:
        made = (await api.create("configmaps", config_map("a"))).ok()
        kind, mark = await events.next(80)
        assert kind == "BOOKMARK"
        assert int(mark["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


@pytest.mark.slow
async def test_no_bookmarks_unless_asked_for(api: Api) -> None:
    """A watch that did not ask sees changes only, and ends after its time."""
    version = await _version(api)
    async with api.watch("configmaps", resourceVersion=version, timeoutSeconds=1) as events:
        assert await events.ended()


@pytest.mark.slow
async def test_a_version_that_is_forgotten(api: Api, world: World) -> None:
    """A watch from before what is remembered is told 410 Expired: list again."""
    old = (await api.create("configmaps", config_map("a"))).ok()["metadata"]["resourceVersion"]
    for number in range(3):
        (await api.patch("configmaps", "a", {"data": {"x": str(number)}})).ok()
    async with (
        world.without_history(),
        api.watch("configmaps", resourceVersion=old) as events,
    ):
        kind, status = await events.next()
    assert kind == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


@pytest.mark.slow
async def test_a_watch_from_the_future(api: Api) -> None:
    """A version never reached gives no events of the past, and no silence without end."""
    (await api.create("configmaps", config_map("a"))).ok()
    future = str(int(await _version(api)) + 1_000_000)
    async with api.watch("configmaps", resourceVersion=future, timeoutSeconds=2) as events:
        try:
            kind, status = await events.next()
        except StopAsyncIteration:
            return
    assert (kind, status["code"]) == ("ERROR", 504)


@pytest.mark.parametrize("resource", ["configmaps", "widgets"])
async def test_a_version_that_is_no_version(api: Api, resource: str) -> None:
    """A resourceVersion that cannot be read is refused before the stream starts."""
    answer = await api.get(resource, watch="true", resourceVersion="abc", timeoutSeconds=1)
    assert answer.code in (400, 422, 500), answer.body


@pytest.mark.slow
async def test_a_watch_goes_on_across_a_restart(api: Api, world: World) -> None:
    """After the server was killed a new watch from the last version misses and repeats nothing."""
    version = await _version(api)
    (await api.create("configmaps", config_map("a"))).ok()
    async with api.watch("configmaps", resourceVersion=version) as events:
        kind, last = await events.next()
        assert kind == "ADDED"
        restart = asyncio.create_task(world.restart())
        with pytest.raises((StopAsyncIteration, ApiError)):
            await events.next(30)
        await restart
    fresh = Api(world.transport(), api.namespace)
    (await fresh.create("configmaps", config_map("b"))).ok()
    resume = last["metadata"]["resourceVersion"]
    async with fresh.watch("configmaps", resourceVersion=resume) as events:
        assert await events.take(1) == [("ADDED", "b")]
    await fresh.transport.close()


async def test_partial_metadata_in_a_watch(api: Api) -> None:
    """A watch can carry metadata only."""
    (await api.create("configmaps", config_map("a", big="data"))).ok()
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    query = (("watch", "true"), ("timeoutSeconds", "5"))
    request = Request("GET", api.path("configmaps"), query, {"accept": accept})
    async with api.transport.stream(request, read_timeout=10) as stream:
        kind, body = await Events(stream.chunks).next()
    assert (kind, body["kind"]) == ("ADDED", "PartialObjectMetadata")
    assert set(body) == {"kind", "apiVersion", "metadata"}
