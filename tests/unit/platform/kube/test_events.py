"""Events as they lie in the API: told many times, there once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.correlation import COMBINED
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.resources import CONFIG_MAPS, EVENTS


async def test_events_of_one_cause_are_one_with_a_count(tmp_path: Path) -> None:
    """`kubectl describe` shows one line with "x7", not seven; who deletes it sees it come back."""
    clock = FakeClock(datetime(2026, 5, 1, 12, tzinfo=UTC))
    store = await Store.open(tmp_path)
    server = ApiServer(store, clock)
    await server.start()
    client = Client(InProcess(server), "default")
    try:
        item = await client.create(CONFIG_MAPS, {"metadata": {"name": "web"}})
        events = Events(client, clock, "tests")
        async with events.running():
            for _ in range(7):
                events.tell(CONFIG_MAPS, item, "BackOff", "back-off", type="Warning")
                clock.advance(timedelta(seconds=10))
            await events.flushed()
            (event,) = (await client.list(EVENTS)).items
            assert (event.reason, event.message, event.count) == ("BackOff", "back-off", 7)
            assert event.first_timestamp == datetime(2026, 5, 1, 12, tzinfo=UTC)
            assert event.last_timestamp == datetime(2026, 5, 1, 12, 1, tzinfo=UTC)

            await client.delete(EVENTS, event.metadata.name)
            events.tell(CONFIG_MAPS, item, "BackOff", "back-off", type="Warning")
            await events.flushed()
            (event,) = (await client.list(EVENTS)).items
            assert event.count == 8

            for number in range(12):
                events.tell(CONFIG_MAPS, item, "Failed", f"try {number}", type="Warning")
            await events.flushed()
            told = [one for one in (await client.list(EVENTS)).items if one.reason == "Failed"]
            assert len(told) == 10
            (combined,) = (one for one in told if one.message.startswith(COMBINED))
            assert (combined.message, combined.count) == (f"{COMBINED}try 11", 3)
    finally:
        await server.stop()
        await store.close()
