"""Lists and watches over time: one moment through many pages, bookmarks, ends, falling behind."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.platform.kube.status import Unavailable
from boilerhouse.platform.kube.wire import Request
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.conftest import Embedded, Start


async def _make(api: Api, *names: str) -> None:
    for name in names:
        (await api.create("configmaps", {"metadata": {"name": name}})).ok()


async def test_pages_show_one_moment_even_across_a_restart(start: Start) -> None:
    """What is written between two pages, or a new process, does not show in the second."""
    async with start() as embedded:
        await _make(embedded.api, "a", "b", "c", "d")
        first = (await embedded.api.get("configmaps", limit=2)).ok()
        assert first["metadata"]["remainingItemCount"] == 2
        await embedded.api.delete("configmaps", "c")
        await _make(embedded.api, "bb")
    token = first["metadata"]["continue"]
    async with start() as embedded:
        second = (await embedded.api.get("configmaps", limit=5, **{"continue": token})).ok()
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_a_token_older_than_the_history_comes_with_one_that_goes_on(start: Start) -> None:
    """410 Expired carries a token that shows the rest as it is now."""
    async with start(history=3) as embedded:
        api = embedded.api
        await _make(api, "a", "b", "d")
        token = (await api.get("configmaps", limit=1)).ok()["metadata"]["continue"]
        await _make(api, "c", "e", "f", "g")
        answer = await api.get("configmaps", limit=1, **{"continue": token})
        assert (answer.code, answer.body["reason"]) == (410, "Expired")
        again = answer.body["metadata"]["continue"]
        rest = await api.names("configmaps", **{"continue": again})
    assert rest == ["b", "c", "d", "e", "f", "g"]


async def test_a_token_of_another_world_is_refused(api: Api) -> None:
    """Tokens are opaque, not trusted: garbage and futures are bad requests."""
    for token in ("!", "e30", "eyJydiI6OTk5OTk5LCJzdGFydCI6Ii9hIn0"):
        (await api.get("configmaps", **{"continue": token})).status(400, "BadRequest")


@pytest.mark.looptime
async def test_bookmarks_each_minute_and_before_the_end(embedded: Embedded) -> None:
    """A quiet watch hears every minute how far it has seen, and once more before it ends."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    heard: list[tuple[int, str, str]] = []
    query = {"watch": 1, "allowWatchBookmarks": "true", "timeoutSeconds": 150}
    query |= {"resourceVersion": embedded.store.revision}
    path = embedded.api.path("configmaps")
    request = Request("GET", path, tuple((key, str(value)) for key, value in query.items()))
    async with InProcess(embedded.server).stream(request, read_timeout=100) as stream:
        async for piece in stream.chunks:
            event = json.loads(piece)
            version = event["object"]["metadata"]["resourceVersion"]
            heard.append((round(loop.time() - began), event["type"], version))
    revision = str(embedded.store.revision)
    assert heard == [(at, "BOOKMARK", revision) for at in (60, 120, 148)]
    assert round(loop.time() - began) == 150


@pytest.mark.looptime
async def test_silence_longer_than_the_deadline_is_a_broken_stream(embedded: Embedded) -> None:
    """In process as over HTTP: a reader that hears nothing gives up by its own deadline."""
    request = Request("GET", embedded.api.path("configmaps"), (("watch", "1"),))
    with pytest.raises(Unavailable):
        async with InProcess(embedded.server).stream(request, read_timeout=5) as stream:
            _ = [piece async for piece in stream.chunks]


async def test_a_watcher_that_falls_behind_is_told_so(start: Start) -> None:
    """Whoever reads slower than the history moves gets 410 instead of a gap."""
    async with start(history=5) as embedded:
        api = embedded.api
        async with api.watch("configmaps", resourceVersion=str(embedded.store.revision)) as events:
            await _make(api, "a")
            assert (await events.next())[0] == "ADDED"
            await _make(api, *"bcdefghij")
            kind, status = await events.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert await events.ended()


async def test_a_watch_survives_no_event_and_doubles_none_across_a_restart(start: Start) -> None:
    """A watch resumed in a new process from the last version seen gets exactly the rest."""
    async with start() as embedded:
        await _make(embedded.api, "a", "b")
        seen = (await embedded.api.get("configmaps", "a")).ok()["metadata"]["resourceVersion"]
        await embedded.api.patch("configmaps", "a", {"data": {"k": "v"}})
    async with (
        start() as embedded,
        embedded.api.watch("configmaps", resourceVersion=seen) as events,
    ):
        assert await events.take(2) == [("ADDED", "b"), ("MODIFIED", "a")]


async def test_selectors_turn_changes_into_arrivals_and_departures(api: Api) -> None:
    """An object that leaves is shown as it was while it matched, at the new version."""
    async with api.watch("configmaps", labelSelector="on=yes") as events:
        body: dict[str, Any] = {"metadata": {"name": "a", "labels": {"on": "no"}}}
        await api.create("configmaps", body)
        await api.patch("configmaps", "a", {"metadata": {"labels": {"on": "yes"}}})
        left = (await api.patch("configmaps", "a", {"metadata": {"labels": {"on": "no"}}})).ok()
        assert (await events.next())[0] == "ADDED"
        kind, shown = await events.next()
    assert kind == "DELETED"
    assert shown["metadata"]["labels"] == {"on": "yes"}
    assert shown["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_an_unread_stream_holds_nothing(embedded: Embedded) -> None:
    """A watch that was opened and never read leaves no subscription behind."""
    request = Request("GET", embedded.api.path("configmaps"), (("watch", "1"),))
    async with InProcess(embedded.server).stream(request):
        pass
    await _make(embedded.api, "a")
    logs = embedded.store._history._logs
    assert not logs["configmaps", "default"].subscriptions
