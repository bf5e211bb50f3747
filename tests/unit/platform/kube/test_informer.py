"""The informer in virtual time: minutes of silence, restarts and expiries in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.kube.status import Unavailable
from tests.unit.platform.kube.memory import MemoryApi

pytestmark = pytest.mark.looptime

ROOT = "/api/v1/namespaces/default/pods"


class Rig:
    """A server with one Pod and a running informer of it."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.api.put(f"{ROOT}/a", {})
        timing = Timing(watch=60, margin=15)
        self.informer: Informer[Pod] = Informer(
            Client(self.api), PODS, timing=timing, rng=new_rng(1)
        )

    async def __aenter__(self) -> tuple[MemoryApi, Informer[Pod]]:
        self._running = self.informer.running()
        await self._running.__aenter__()
        await self.informer.wait_synced()
        return self.api, self.informer

    async def __aexit__(self, *error: object) -> None:
        await self._running.__aexit__(None, None, None)


def names(informer: Informer[Pod]) -> list[str]:
    return sorted(key.name for key in informer.cache)


async def test_it_lists_and_then_follows() -> None:
    """What was there is there after `synced`; changes come as they happen, without a list."""
    async with Rig() as (api, informer):
        assert names(informer) == ["a"]
        api.put(f"{ROOT}/b", {})
        api.remove(f"{ROOT}/a")
        await asyncio.sleep(0.01)
        assert names(informer) == ["b"]
        assert informer.relists == 1


async def test_a_quiet_watch_is_renewed_without_a_list() -> None:
    """An hour of nothing is some fifty watches of about a minute, one list and good health."""
    async with Rig() as (api, informer):
        await asyncio.sleep(3600)
        assert informer.relists == 1
        assert 45 <= api.count("GET", watch=True) <= 61
        assert informer.healthy()
        assert informer.silence() <= 75


async def test_bookmarks_keep_a_quiet_watch_from_expiring() -> None:
    """Others write, the server forgets, and we still need no new list."""
    async with Rig() as (api, informer):
        for _ in range(30):
            api.revision += 1000  # elsewhere, nothing that we watch
            await asyncio.sleep(80)
            api.forget()
            await asyncio.sleep(1)
        assert informer.relists == 1


async def test_an_expired_revision_is_answered_by_a_list() -> None:
    """410: what happened meanwhile is found out by looking, deletions too."""
    async with Rig() as (api, informer):
        api.down = True
        api.break_streams()
        await asyncio.sleep(1)
        api.remove(f"{ROOT}/a")
        api.put(f"{ROOT}/b", {})
        api.forget()
        api.down = False
        await asyncio.sleep(60)
        assert names(informer) == ["b"]
        assert informer.last_error == ""


async def test_a_frozen_server_is_noticed() -> None:
    """A peer that stays connected and says nothing is given up, and asked anew when it thaws."""
    async with Rig() as (api, informer):
        api.frozen = True
        await asyncio.sleep(200)
        assert informer.silence() > 100
        assert not informer.healthy(100)
        api.frozen = False
        api.put(f"{ROOT}/b", {})
        await asyncio.sleep(120)
        assert names(informer) == ["a", "b"]
        assert informer.healthy(100)


async def test_it_never_gives_up_and_does_not_hammer() -> None:
    """An hour without a server: attempts with a growing, capped pause; then all is well."""
    async with Rig() as (api, informer):
        api.down = True
        api.break_streams()
        before = len(api.requests)
        await asyncio.sleep(3600)
        attempts = len(api.requests) - before
        assert 3600 / 35 <= attempts <= 4 * 3600 / 15  # each list tries four times
        assert "nobody there" in informer.last_error
        assert not informer.healthy()
        api.down = False
        api.put(f"{ROOT}/b", {})
        await asyncio.sleep(35)
        assert names(informer) == ["a", "b"]
        assert informer.healthy()


async def test_a_failure_after_a_good_time_is_tried_again_soon() -> None:
    """The back-off is forgotten once a watch has worked."""
    async with Rig() as (api, informer):
        api.down = True
        api.break_streams()
        await asyncio.sleep(600)
        api.down = False
        await asyncio.sleep(120)
        before = informer.relists
        api.down = True
        api.break_streams()
        await asyncio.sleep(0)
        api.down = False
        await asyncio.sleep(1)
        assert informer.relists == before + 1


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    """Clean but immediate ends are failures too: they are backed off from."""

    class Rude(MemoryApi):
        async def _watch(self, request: object, patience: object) -> AsyncIterator[bytes]:
            nothing: list[bytes] = []
            for line in nothing:
                yield line

    api = Rude()
    informer = Informer(Client(api), PODS, rng=new_rng(1))
    async with informer.running():
        await asyncio.sleep(600)
    assert len(api.requests) < 120
    assert "at once" in informer.last_error


async def test_an_own_write_is_seen_at_once() -> None:
    """`observe` puts it in before the watch tells of it, `forget` takes it out."""
    async with Rig() as (api, informer):
        client = Client(api)
        made = await client.create(PODS, {"metadata": {"name": "mine"}})
        informer.observe(made)
        assert names(informer) == ["a", "mine"]
        informer.forget(made)
        assert names(informer) == ["a"]


async def test_own_writes_elsewhere_are_none_of_its_business() -> None:
    """Another namespace, other labels or a field selector: only what it selects is taken in."""
    client = Client(MemoryApi())
    elsewhere = Informer(client, PODS, namespace="other")
    labelled = Informer(client, PODS, labels={"app": "web"})
    by_field = Informer(client, PODS, fields="spec.nodeName=n1")
    made = await client.create(PODS, {"metadata": {"name": "x", "labels": {"app": "db"}}})
    for informer in (elsewhere, labelled, by_field):
        informer.observe(made)
        assert len(informer.cache) == 0
    web = await client.create(PODS, {"metadata": {"name": "y", "labels": {"app": "web"}}})
    labelled.observe(web)
    assert names(labelled) == ["y"]


async def test_an_object_that_does_not_fit_is_left_out_and_told() -> None:
    """It hides nothing else, and is taken in when it has been mended."""
    async with Rig() as (api, informer):
        api.put(f"{ROOT}/bad", {"spec": {"nodeName": 5}})
        api.put(f"{ROOT}/good", {})
        await asyncio.sleep(0.01)
        assert names(informer) == ["a", "good"]
        assert [key.name for key in informer.misfits] == ["bad"]
        api.put(f"{ROOT}/bad", {"spec": {"nodeName": "n"}})
        await asyncio.sleep(0.01)
        assert names(informer) == ["a", "bad", "good"]
        assert informer.misfits == {}
        assert informer.relists == 1


async def test_an_object_that_no_longer_fits_is_not_served_as_it_was() -> None:
    """An old state that we know to be old is worse than none."""
    async with Rig() as (api, informer):
        api.put(f"{ROOT}/a", {"spec": {"nodeName": 5}})
        await asyncio.sleep(0.01)
        assert names(informer) == []


async def test_waiting_for_a_server_that_does_not_answer_ends() -> None:
    """`wait_synced` says why there is nothing yet."""
    api = MemoryApi()
    api.down = True
    informer = Informer(Client(api), PODS)
    async with informer.running():
        with pytest.raises(Unavailable, match="nobody there"):
            await informer.wait_synced(10)
        assert not informer.healthy()


async def test_a_bug_in_an_index_does_not_end_it() -> None:
    """Whatever is raised inside, it goes on trying."""
    api = MemoryApi()
    api.put(f"{ROOT}/a", {})
    broken = True

    def values(item: Pod) -> list[str]:
        if broken:
            raise RuntimeError("oops")
        return [item.metadata.name]

    informer = Informer(Client(api), PODS)
    index = informer.index(values)
    async with informer.running():
        await asyncio.sleep(10)
        assert "oops" in informer.last_error
        broken = False
        await asyncio.sleep(60)
        assert informer.healthy()
        assert index.count("a") == 1


async def test_an_own_write_is_told_once() -> None:
    """Whoever listens hears of it when it is observed, and not again when the watch tells of it."""
    async with Rig() as (api, informer):
        heard: list[str] = []
        made = await Client(api).create(PODS, {"metadata": {"name": "mine"}})
        informer.subscribe(lambda change: heard.append(change.key.name))
        heard.clear()
        informer.observe(made)
        ahead = informer.cache.ahead
        await asyncio.sleep(0.01)
        assert heard == ["mine"]
        assert informer.cache.revision == api.revision
        assert ahead
        assert not informer.cache.ahead
        api.put(f"{ROOT}/mine", {"spec": {"nodeName": "n"}})
        await asyncio.sleep(0.01)
        assert heard == ["mine", "mine"]
        assert informer.cache[Key("default", "mine")].spec.node_name == "n"


async def test_subscribers_run_outside_of_an_own_write() -> None:
    """The next read sees it at once; one who is slow, or fails, is met after the write is done."""
    api = MemoryApi()
    informer = Informer(Client(api), PODS)
    told: list[str] = []

    def failing(change: Change[Pod]) -> None:
        told.append(change.type)
        raise RuntimeError("oops")

    async def write() -> list[str]:
        informer.observe(made)
        assert informer.get("default", "mine") is made
        informer.forget(made)
        assert informer.get("default", "mine") is None
        return list(told)

    made = await Client(api).create(PODS, {"metadata": {"name": "mine"}})
    informer.subscribe(failing)
    assert await write() == []
    await asyncio.sleep(0)
    assert told == ["added", "deleted"]


async def test_own_writes_and_events_are_told_in_order() -> None:
    """An event that comes before an own write was told does not overtake it."""
    api = MemoryApi()
    informer = Informer(Client(api), PODS)
    told: list[tuple[str, str]] = []

    def note(change: Change[Pod]) -> None:
        assert change.new is not None
        told.append((change.type, change.new.spec.node_name))

    made = await Client(api).create(PODS, {"metadata": {"name": "mine"}})
    bound = await Client(api).merge_patch(PODS, "mine", {"spec": {"nodeName": "n"}})
    informer.subscribe(note)
    informer.observe(made)
    assert told == []
    informer.cache.apply(bound)
    assert told == [("added", ""), ("updated", "n")]
    await asyncio.sleep(0)
    assert len(told) == 2


async def test_a_new_subscriber_hears_once_of_what_was_not_told_yet() -> None:
    """It begins with what is there, which a write that others hear of later is part of."""
    async with Rig() as (api, informer):
        told: list[str] = []
        informer.observe(await Client(api).create(PODS, {"metadata": {"name": "mine"}}))
        informer.subscribe(lambda change: told.append(change.key.name))
        await asyncio.sleep(0.01)
        assert told == ["a", "mine"]


async def test_an_own_write_mends_what_did_not_fit() -> None:
    """Once the watch has told of it nothing is said of the object any more."""
    async with Rig() as (api, informer):
        api.put(f"{ROOT}/bad", {"spec": {"nodeName": 5}})
        await asyncio.sleep(0.01)
        assert [key.name for key in informer.misfits] == ["bad"]
        mended = {"spec": {"nodeName": "n"}}
        informer.observe(await Client(api).merge_patch(PODS, "bad", mended))
        await asyncio.sleep(0.01)
        assert names(informer) == ["a", "bad"]
        assert informer.misfits == {}
