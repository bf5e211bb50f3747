"""Our client's verbs, and the type of every error, against whole servers."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer, Timing
from boilerhouse.platform.kube.kinds import Bare, ConfigMap
from boilerhouse.platform.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    Resource,
)
from boilerhouse.platform.kube.status import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooLarge,
)
from tests.api_fixture import World
from tests.contract.driver import Api
from tests.contract.objects import GROUP, config_map, pod, widget

WIDGETS = Resource(GROUP, "v1", "widgets", "Widget", Bare)
QUICK = Timing(watch=5, margin=2, first_delay=0.05, longest_delay=0.5)


@pytest_asyncio.fixture(loop_scope="session")
async def client(api: Api) -> Client:
    return Client(api.transport, api.namespace)


async def test_a_life(client: Client) -> None:
    """Create, get, patch, replace and delete of one object, read into its Struct."""
    created = await client.create(CONFIG_MAPS, config_map("a", {"l": "1"}, x="1"))
    assert created.metadata.name == "a"
    assert (await client.get(CONFIG_MAPS, "a")).data == {"x": "1"}
    patched = await client.merge_patch(CONFIG_MAPS, "a", {"data": {"y": "2"}})
    assert patched.data == {"x": "1", "y": "2"}
    replaced = await client.replace(CONFIG_MAPS, config_map("a", w="4"))
    assert replaced.data == {"w": "4"}
    assert await client.delete(CONFIG_MAPS, "a", uid=created.metadata.uid) is None
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a")


async def test_a_definition_can_be_read_at_birth(client: Client) -> None:
    """A real server has no conditions to show yet, and says so with null."""
    body = {
        "metadata": {"name": "births.client.example"},
        "spec": {
            "group": "client.example",
            "scope": "Namespaced",
            "names": {"plural": "births", "singular": "birth", "kind": "Birth"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    created = await client.create(CRDS, body)
    assert created.spec.names.kind == "Birth"
    await client.delete(CRDS, "births.client.example", uid=created.metadata.uid)


async def test_errors_have_types(client: Client) -> None:
    """Each refusal is the exception of its reason, with its details."""
    await client.create(CONFIG_MAPS, config_map("a", x="1"))
    with pytest.raises(AlreadyExists) as taken:
        await client.create(CONFIG_MAPS, config_map("a"))
    assert (taken.value.name, taken.value.kind) == ("a", "configmaps")
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"x": "2"}}
    with pytest.raises(Conflict):
        await client.merge_patch(CONFIG_MAPS, "a", stale)
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", uid="11111111-1111-1111-1111-111111111111")
    with pytest.raises(Invalid) as invalid:
        await client.create(WIDGETS, widget("w", size=0, colour="blue"))
    assert {cause.field for cause in invalid.value.causes} >= {"spec.size", "spec.colour"}
    with pytest.raises(BadRequest):
        await client.list(CONFIG_MAPS, labels="a b c")
    with pytest.raises(TooLarge):
        await client.create(CONFIG_MAPS, config_map("big", x="y" * (3 << 20)))
    with pytest.raises(NotFound):
        await client.create(CONFIG_MAPS, config_map("b"), namespace="nowhere")
    with pytest.raises(Forbidden):
        await client.delete(NAMESPACES, "default")


async def test_lists_in_pages(client: Client) -> None:
    """A list of many pages is one list of one moment."""
    await asyncio.gather(
        *(client.create(CONFIG_MAPS, config_map(f"c{n:02}", {"n": str(n % 2)})) for n in range(25))
    )
    listing = await client.list(CONFIG_MAPS, limit=7)
    assert [item.metadata.name for item in listing.items] == [f"c{n:02}" for n in range(25)]
    odd = await client.list(CONFIG_MAPS, labels={"n": "1"}, limit=5)
    assert len(odd.items) == 12
    pages = [page async for page in client.pages(CONFIG_MAPS, limit=10)]
    assert [len(page.items) for page in pages] == [10, 10, 5]
    assert len({page.resource_version for page in pages}) == 1


@pytest.mark.slow
async def test_a_list_that_expires_between_pages(client: Client, world: World) -> None:
    """Page by page it is Gone; as a whole list it begins again by itself."""
    for number in range(4):
        await client.create(CONFIG_MAPS, config_map(f"c{number}"))
    pages = client.pages(CONFIG_MAPS, limit=1)
    await anext(pages)
    for number in range(4):
        await client.merge_patch(CONFIG_MAPS, f"c{number}", {"data": {"x": "1"}})
    async with world.without_history():
        with pytest.raises(Gone):
            await anext(pages)
        assert len((await client.list(CONFIG_MAPS, limit=1)).items) == 4


async def test_deletion_that_lingers(client: Client) -> None:
    """A Pod with grace is returned as it lingers; without grace it is gone."""
    await client.create(PODS, pod("a", nodeName="somewhere"))
    lingering = await client.delete(PODS, "a", grace=9)
    assert lingering is not None
    assert lingering.metadata.deletion_grace_period_seconds == 9
    assert await client.delete(PODS, "a", grace=0) is None
    with pytest.raises(NotFound):
        await client.get(PODS, "a")


async def test_selected_objects_are_deleted_together(client: Client) -> None:
    """A deletion of a selection leaves the rest."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        await client.create(CONFIG_MAPS, config_map(name, labels))
    await client.delete_collection(CONFIG_MAPS, labels={"x": "1"})
    left = await client.list(CONFIG_MAPS)
    assert [item.metadata.name for item in left.items] == ["b"]


async def test_scale(client: Client) -> None:
    """The scale of a custom resource is read and set."""
    await client.create(WIDGETS, widget("a", replicas=2))
    assert (await client.scale(WIDGETS, "a")).spec.replicas == 2
    assert (await client.scale(WIDGETS, "a", 5)).spec.replicas == 5


async def test_watch_with_initial_events(client: Client) -> None:
    """What exists, the mark that this was all, then what changes."""
    await client.create(CONFIG_MAPS, config_map("a"))
    async with (
        asyncio.timeout(20),
        client.watch(
            CONFIG_MAPS, send_initial_events=True, timeout_seconds=15, read_timeout=20
        ) as events,
    ):
        first = await anext(events)
        assert (first.type, first.key.name) == ("ADDED", "a")
        assert (await anext(events)).initial_events_end
        await client.delete(CONFIG_MAPS, "a")
        last = await anext(events)
        assert (last.type, last.key.name) == ("DELETED", "a")


async def test_a_quota_is_forbidden_with_its_words(client: Client) -> None:
    """What a quota refuses arrives as Forbidden and names the quota."""
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "0", "configmaps": "0"}}}
    await client.create(RESOURCE_QUOTAS, body)

    async def refused() -> bool:
        try:
            await client.create(CONFIG_MAPS, {"metadata": {"generateName": "x"}})
        except Forbidden as error:
            return "exceeded quota: q" in error.message
        return False

    async with asyncio.timeout(15):
        while not await refused():  # noqa: ASYNC110 - the server's state, not ours
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_an_informer_over_a_restart(client: Client, world: World) -> None:
    """Killed and started again, the server changes nothing for who reads the cache."""
    informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, timing=QUICK)
    async with asyncio.timeout(60), informer.running():
        await informer.wait_synced()
        await client.create(CONFIG_MAPS, config_map("before"))
        await world.restart()
        await client.create(CONFIG_MAPS, config_map("after"))
        while {key.name for key in informer.cache} != {"before", "after"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the cache tells who subscribes, not who looks
