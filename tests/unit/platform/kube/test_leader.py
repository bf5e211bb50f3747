"""Leader election in virtual time: hand-over, loss, fencing, release, clocks that disagree."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from boilerhouse.core.clock import FakeClock, new_rng
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.leader import Elector, LeaseTiming
from boilerhouse.platform.kube.wire import Reply, Request
from tests.unit.platform.kube.memory import MemoryApi

pytestmark = pytest.mark.looptime

PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock"


class Uplink(MemoryApi):
    """One replica's own way to the shared server, which can be cut."""

    def __init__(self, server: MemoryApi) -> None:
        super().__init__()
        self.server = server

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        await self._arrive(request, timeout)
        return await self.server.request(request)


class Replica:
    def __init__(self, server: MemoryApi, name: str, clock: FakeClock | None = None) -> None:
        self.uplink = Uplink(server)
        self.elector = Elector(
            Client(self.uplink), "lock", name, clock=clock or FakeClock(), rng=new_rng(len(name))
        )
        self.terms: list[list[float]] = []  # [began, ended]
        self.winding_down = 0.0
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.terms.append([now()])
        try:
            await asyncio.sleep(float("inf"))
        finally:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(self.winding_down)
            self.terms[-1].append(now())

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.slow
async def test_one_leads_and_keeps_leading() -> None:
    """Of three, exactly one works, for as long as it renews."""
    server = MemoryApi()
    replicas = [Replica(server, name) for name in ("a", "bb", "ccc")]
    await asyncio.sleep(600)
    assert sum(replica.elector.leading for replica in replicas) == 1
    assert sum(len(replica.terms) for replica in replicas) == 1
    holder = server.objects[PATH]["spec"]["holderIdentity"]
    assert {replica.elector.holder for replica in replicas} == {holder}
    for replica in replicas:
        await replica.stop()


async def test_a_leader_that_stops_hands_over_at_once() -> None:
    """The Lease is released on the way out, so nobody waits for it to run out."""
    server = MemoryApi()
    first = Replica(server, "a")
    await asyncio.sleep(1)
    second = Replica(server, "bb")
    await asyncio.sleep(10)
    await first.stop()
    stopped = now()
    assert "holderIdentity" not in server.objects[PATH]["spec"]
    await asyncio.sleep(5)
    assert second.terms[0][0] - stopped <= 2.5
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_leader_that_is_cut_off_stops_before_another_begins() -> None:
    """It cannot renew, so it stops by its own clock; the next one waits for the whole duration."""
    server = MemoryApi()
    first = Replica(server, "a")
    await asyncio.sleep(1)
    second = Replica(server, "bb")
    await asyncio.sleep(30)
    first.uplink.down = True
    cut = now()
    await asyncio.sleep(60)
    assert not first.elector.leading
    ended, began = first.terms[0][1], second.terms[0][0]
    assert cut < ended <= cut + 13
    assert ended < began <= cut + 20
    first.uplink.down = False
    await asyncio.sleep(30)
    assert len(first.terms) == 1
    await first.stop()
    await second.stop()


async def test_a_leader_whose_server_hangs_stops_in_time() -> None:
    """A request that is never answered does not keep it in office."""
    server = MemoryApi()
    first = Replica(server, "a")
    await asyncio.sleep(5)
    first.uplink.frozen = True
    await asyncio.sleep(30)
    assert first.terms[0][1] <= 18
    await first.stop()


async def test_a_short_outage_costs_nobody_the_office() -> None:
    """Renewal is tried again and again while there is time."""
    server = MemoryApi()
    first = Replica(server, "a")
    await asyncio.sleep(20)
    first.uplink.down = True
    await asyncio.sleep(6)
    first.uplink.down = False
    await asyncio.sleep(60)
    assert first.elector.leading
    assert len(first.terms) == 1
    await first.stop()


async def test_clocks_may_disagree() -> None:
    """One replica lives in 2020, another in 2030: who leads stays the leader."""
    server = MemoryApi()
    old = Replica(server, "a", FakeClock(datetime(2020, 1, 1, tzinfo=UTC)))
    await asyncio.sleep(1)
    young = Replica(server, "bb", FakeClock(datetime(2030, 1, 1, tzinfo=UTC)))
    await asyncio.sleep(300)
    assert (old.elector.leading, young.terms) == (True, [])
    await old.stop()
    await asyncio.sleep(5)
    third = Replica(server, "ccc", FakeClock(datetime(2020, 1, 1, tzinfo=UTC)))
    await asyncio.sleep(300)
    assert (young.elector.leading, third.terms) == (True, [])
    await young.stop()
    await third.stop()


async def test_a_dead_leaders_lease_is_taken_after_it_stood_still_for_its_duration() -> None:
    """Not by its timestamps, which may be old or in the future: by watching it not change."""
    server = MemoryApi()
    for stamp in ("1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"):
        spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 40, "renewTime": stamp}
        server.put(PATH, {"spec": spec})
        began = now()
        replica = Replica(server, "a")
        await asyncio.sleep(60)
        assert 40 <= replica.terms[0][0] - began <= 43
        await replica.stop()


async def test_somebody_elses_edit_does_not_cost_the_office() -> None:
    """A label put on the Lease makes one renewal conflict, no more."""
    server = MemoryApi()
    replica = Replica(server, "a")
    for _ in range(10):
        await asyncio.sleep(7)
        server.put(PATH, server.objects[PATH])
    assert replica.elector.leading
    assert len(replica.terms) == 1
    await replica.stop()


async def test_a_stolen_lease_ends_the_term() -> None:
    """Whoever wrote another name into it is obeyed."""
    server = MemoryApi()
    replica = Replica(server, "a")
    await asyncio.sleep(10)
    lease = server.objects[PATH]
    server.put(PATH, {**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
    stolen = now()
    await asyncio.sleep(5)
    assert replica.terms[0][1] - stolen <= 3
    assert replica.elector.holder == "thief"
    await replica.stop()
    assert server.objects[PATH]["spec"]["holderIdentity"] == "thief"


async def test_a_deleted_lease_is_made_again() -> None:
    """The term ends and a new one begins."""
    server = MemoryApi()
    replica = Replica(server, "a")
    await asyncio.sleep(10)
    server.remove(PATH)
    await asyncio.sleep(10)
    assert replica.elector.leading
    assert len(replica.terms) == 2
    await replica.stop()


async def test_work_that_takes_long_to_stop_is_still_covered() -> None:
    """While the last step finishes, the Lease is renewed: nobody begins before it has ended."""
    server = MemoryApi()
    first = Replica(server, "a")
    first.winding_down = 40.0
    await asyncio.sleep(1)
    second = Replica(server, "bb")
    await asyncio.sleep(10)
    await first.stop()
    await asyncio.sleep(5)
    assert first.terms[0][1] < second.terms[0][0]
    await second.stop()


async def test_work_that_ends_by_itself_ends_the_run() -> None:
    """Its result or error is the run's, and the Lease is released."""
    server = MemoryApi()

    async def fail() -> None:
        await asyncio.sleep(3)
        raise ValueError("broken")

    elector = Elector(Client(server), "lock", "a")
    with pytest.raises(ValueError, match="broken"):
        await elector.run(fail)
    assert "holderIdentity" not in server.objects[PATH]["spec"]
    assert not elector.leading
    await elector.run(lambda: asyncio.sleep(1))


async def test_stopping_does_not_wait_for_a_dead_server() -> None:
    """The release is tried for a few seconds only."""
    server = MemoryApi()
    replica = Replica(server, "a")
    await asyncio.sleep(1)
    replica.uplink.frozen = True
    began = now()
    await replica.stop()
    assert now() - began <= 4


async def test_timing_must_make_sense() -> None:
    """A leader must give up before others may take over."""
    with pytest.raises(ValueError, match="retry < renew_within < duration"):
        LeaseTiming(duration=10, renew_within=15)
