"""Kubelet's words about a probe, found in Events: seldom asked for, and not at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from boilerhouse.core.clock import FakeClock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Event
from boilerhouse.platform.kube.resources import EVENTS
from boilerhouse.tenancy.instances.readiness import ASK_SECONDS, SLOW_SECONDS, Readiness, newest
from boilerhouse.tenancy.instances.seen import InstanceSeen
from tests.controllers.operator_fixture import opened

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WAITS = "its readiness probe (tcp 8080) has not succeeded yet"


def pod(number: int = 1, unready: str = WAITS) -> InstanceSeen:
    created = NOW + timedelta(seconds=number)
    return InstanceSeen(f"p{number}", f"u{number}", "1", "web", "t", created, unready=unready)


def event(message: str, at: int, **more: Any) -> Event:
    told = {"message": message, "lastTimestamp": f"2026-05-01T12:00:{at:02d}Z", **more}
    return msgspec.convert(told, Event)


def test_the_newest_words_about_readiness_count() -> None:
    """Those about another probe only where there are no others."""
    assert newest([]) == ""
    alive = event("Liveness probe failed: no", 9)
    assert newest([alive]) == "liveness probe failed: no"
    old, new = event("Readiness probe failed: a", 1), event("Readiness probe failed: b", 2)
    assert newest([new, alive, old]) == "readiness probe failed: b"
    untimed = msgspec.structs.replace(old, last_timestamp=None)
    assert newest([untimed, new]) == "readiness probe failed: b"


async def tell(client: Client, uid: str, message: str, at: int = 1) -> None:
    about = {"kind": "Pod", "namespace": client.namespace, "name": "x", "uid": uid}
    body = {"involvedObject": about, "reason": "Unhealthy", "message": message}
    body |= {"lastTimestamp": f"2026-05-01T12:00:{at:02d}Z"}
    await client.create(EVENTS, {"metadata": {"generateName": "x."}, **body})


async def test_events_are_asked_for_when_it_takes_long(tmp_path: Path) -> None:
    """Nothing is said of a start that is not slow; afterwards an answer holds for a while."""
    clock = FakeClock(NOW)
    async with opened(tmp_path, clock) as world:
        readiness = Readiness(world.client, clock)
        await tell(world.client, "u1", "Readiness probe failed: no")
        assert (await readiness.explain(pod())).unready == ""
        clock.advance(SLOW_SECONDS)
        assert (await readiness.explain(pod())).unready == "readiness probe failed: no"
        await tell(world.client, "u1", "Readiness probe failed: zzz", at=2)
        assert (await readiness.explain(pod())).unready == "readiness probe failed: no"
        clock.advance(ASK_SECONDS)
        assert (await readiness.explain(pod())).unready == "readiness probe failed: zzz"
        assert (await readiness.explain(pod(unready=""))).unready == ""
        assert (await readiness.explain(pod())).unready == ""  # it was ready: a new start


async def test_who_waits_for_the_same_is_told_alike(tmp_path: Path) -> None:
    """One of them is asked about, and their order stays; without an Event the status must do."""
    clock = FakeClock(NOW)
    async with opened(tmp_path, clock) as world:
        readiness = Readiness(world.client, clock)
        pods = (pod(2), pod(1), pod(3, unready="another probe"), pod(4, unready=""))
        await readiness.explain_all(pods)
        clock.advance(SLOW_SECONDS)
        await tell(world.client, "u1", "Readiness probe failed: no")
        found = await readiness.explain_all(pods)
        assert found == (
            replace(pods[0], unready="readiness probe failed: no"),
            replace(pods[1], unready="readiness probe failed: no"),
            pods[2],
            pods[3],
        )
