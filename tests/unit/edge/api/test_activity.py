"""Activity: written at once, then at most once per interval, and never lost at the end."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import parse_time, rfc3339_micro
from boilerhouse.edge.api.activity import Activity
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.rpc.message import Answer, Request
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import helper_secret
from boilerhouse.tenancy.snapshots.client import HelperClient
from tests.unit.edge.api.conftest import Rest, soon


@pytest.fixture
async def claim(rest: Rest) -> Claim:
    await rest.world.ready_workload(idle={"timeoutSeconds": 1})  # an interval of 0.25 s
    name = await rest.world.claim("alice")
    return await rest.world.claimed(name)


async def noted(rest: Rest, claim: Claim) -> datetime | None:
    found = await rest.world.client.get(CLAIMS, claim.metadata.name)
    text = found.metadata.annotations.get(names.LAST_ACTIVITY)
    return None if text is None else parse_time(text)


@pytest.mark.slow
async def test_many_touches_are_few_writes(rest: Rest, claim: Claim) -> None:
    """The first is written at once, the rest as one at the end of the interval."""
    activity = rest.services.activity
    before = claim.metadata.resource_version
    versions: set[str] = set()
    rest.services.informers.claims.subscribe(
        lambda change: versions.add(change.new.metadata.resource_version) if change.new else None
    )
    for _ in range(50):
        activity.touch(claim)
        await asyncio.sleep(0)
    last = rest.world.clock.now()
    await soon(lambda: not activity._pending)
    written = await noted(rest, claim)
    assert written is not None
    assert abs((written - last).total_seconds()) < 0.2
    assert 1 <= len(versions - {before}) <= 3


@pytest.mark.slow
async def test_a_claim_is_born_with_its_first_note(rest: Rest, claim: Claim) -> None:
    """To answer for a claim that was made just now writes nothing more; one that took long does."""
    activity = rest.services.activity
    now = rest.world.clock.now()
    activity.made(await _dated(rest, claim, now))
    assert not activity._pending
    activity.made(await _dated(rest, claim, now - timedelta(seconds=3)))
    await rest.world.settles(lambda: _after(rest, claim, now - timedelta(seconds=1)))


@pytest.mark.slow
async def test_a_long_call_keeps_the_tenant_active(rest: Rest, claim: Claim) -> None:
    """While a call is in flight the annotation moves on, and its end is noted too."""
    async with rest.services.activity.busy(claim):
        await rest.world.settles(lambda: _after(rest, claim, None))
        first = await noted(rest, claim)
        await rest.world.settles(lambda: _after(rest, claim, first))
    end = rest.world.clock.now()
    await soon(lambda: not rest.services.activity._pending)
    last = await noted(rest, claim)
    assert last is not None and abs((end - last).total_seconds()) < 0.3


async def _after(rest: Rest, claim: Claim, moment: datetime | None) -> bool:
    now = await noted(rest, claim)
    return now is not None and (moment is None or now > moment)


@pytest.mark.slow
async def test_the_last_touch_survives_the_end(rest: Rest, claim: Claim) -> None:
    """Stopping writes down what still waited for its interval."""
    informers = rest.services.informers
    activity = Activity(rest.world.client, informers.claims, informers.workloads, rest.world.clock)
    activity.touch(claim)
    await rest.world.settles(lambda: _after(rest, claim, None))
    activity.touch(claim)
    last = rest.world.clock.now()
    await activity.flush()
    written = await noted(rest, claim)
    assert written is not None and abs((written - last).total_seconds()) < 0.1


async def test_a_successor_is_not_touched(rest: Rest, claim: Claim) -> None:
    """Activity of a claim that is gone is not written on another of its name."""
    await rest.world.client.delete(CLAIMS, claim.metadata.name)
    await rest.world.gone(CLAIMS, claim.metadata.name)
    await rest.world.claim("alice")
    rest.services.activity.touch(claim)
    await soon(lambda: not rest.services.activity._pending)
    assert await noted(rest, claim) is None


async def test_far_from_the_deadline_nothing_is_waited_for(rest: Rest, claim: Claim) -> None:
    """A claim that was active just now is returned as it came."""
    rest.services.activity.touch(claim)
    await rest.world.settles(lambda: _after(rest, claim, None))
    fresh = await rest.world.client.get(CLAIMS, claim.metadata.name)
    assert await rest.services.activity.noted(fresh) is fresh


@pytest.mark.slow
async def test_near_the_deadline_the_note_is_written_first(rest: Rest, claim: Claim) -> None:
    """Whoever gets the claim back gets it with the note on it: no idle decision can follow."""
    old = await _dated(rest, claim, rest.world.clock.now() - timedelta(seconds=0.9))
    now = rest.world.clock.now()
    after = await rest.services.activity.noted(old)
    assert after is not None
    assert parse_time(after.metadata.annotations[names.LAST_ACTIVITY]) >= now


async def test_a_claim_that_was_released_meanwhile_shows(rest: Rest, claim: Claim) -> None:
    """Activity that came too late learns so before anybody is sent to the instance."""
    old = await _dated(rest, claim, rest.world.clock.now() - timedelta(seconds=0.9))
    await rest.world.client.delete(CLAIMS, claim.metadata.name)
    await rest.world.gone(CLAIMS, claim.metadata.name)
    assert await rest.services.activity.noted(old) is None


@pytest.mark.slow
async def test_a_note_from_the_future_is_replaced(rest: Rest, claim: Claim) -> None:
    """A clock that was wrong once does not keep later activity from being noted."""
    ahead = await _dated(rest, claim, rest.world.clock.now() + timedelta(days=1))
    rest.services.activity.touch(ahead)
    await soon(lambda: not rest.services.activity._pending)
    written = await noted(rest, claim)
    assert written is not None and written <= rest.world.clock.now()


async def test_calls_in_flight_are_counted(rest: Rest, claim: Claim) -> None:
    """Two at once are two, and none is left when they have ended."""
    activity = rest.services.activity
    async with activity.busy(claim), activity.busy(claim):
        assert activity.in_flight(claim) == 2
    assert activity.in_flight(claim) == 0


async def _dated(rest: Rest, claim: Claim, at: datetime) -> Claim:
    patch = {"metadata": {"annotations": {names.LAST_ACTIVITY: rfc3339_micro(at)}}}
    return await rest.world.client.merge_patch(CLAIMS, claim.metadata.name, patch)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["exec", "exec in pieces", "logs", "files"])
async def test_a_call_counts_for_as_long_as_it_lasts(rest: Rest, claim: Claim, what: str) -> None:
    """A command, a followed log, a file that is read: in flight, and noted again and again."""
    assert claim.status is not None
    instance = claim.status.instance_id
    activity = rest.services.activity

    async def silent(request: Request) -> Answer:
        await asyncio.Event().wait()
        return Answer(200)

    helper = HelperClient(rest.world.client, silent, Agents(rest.world.client))
    await rest.world.client.create(SECRETS, helper_secret("of the snapshot helper"))
    object.__setattr__(rest.services, "helper", helper)
    path = f"/instances/{instance}"
    pieces = {"accept": "application/x-ndjson"}
    match what:
        case "exec":
            call = rest.post(f"{path}/exec", {"command": ["hang"]})
        case "exec in pieces":
            call = rest.post(f"{path}/exec", {"command": ["hang"]}, headers=pieces)
        case "logs":
            call = rest.get(f"{path}/logs", params={"follow": "true"})
        case _:
            call = rest.get(f"{path}/files", params={"path": "/workspace/x"})
    calling = asyncio.create_task(call)
    await soon(lambda: activity.in_flight(claim) == 1)
    await rest.world.settles(lambda: _after(rest, claim, None))
    first = await noted(rest, claim)
    await rest.world.settles(lambda: _after(rest, claim, first))
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await soon(lambda: activity.in_flight(claim) == 0)
