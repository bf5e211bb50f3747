"""Lists: order, selectors, pages, versions, and the two shorter forms of an object."""

from __future__ import annotations

import pytest

from tests.api_fixture import World
from tests.contract.driver import Api
from tests.contract.objects import config_map, gadget, pod, widget

PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def _three(api: Api) -> None:
    for name, labels in (
        ("b", {"tier": "web", "env": "prod"}),
        ("a", {"tier": "db", "env": "prod"}),
        ("c", {"tier": "web"}),
    ):
        (await api.create("configmaps", config_map(name, labels))).ok()


async def test_a_list_is_sorted_and_whole(api: Api) -> None:
    """Items come in the order of their names, without kind and apiVersion of their own."""
    await _three(api)
    listed = (await api.get("configmaps")).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    assert "kind" not in listed["items"][0]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest
    assert "continue" not in listed["metadata"]


async def test_items_of_custom_resources_carry_their_kind(api: Api) -> None:
    """Custom resources keep kind and apiVersion in a list."""
    (await api.create("widgets", widget("a"))).ok()
    listed = (await api.get("widgets")).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", "contract.example.com/v1")
    assert listed["items"][0]["kind"] == "Widget"


async def test_an_empty_list_has_items(api: Api) -> None:
    """No objects is an empty list, not null."""
    assert (await api.get("secrets")).ok()["items"] == []
    assert (await api.get("widgets")).ok()["items"] == []


async def test_a_list_over_all_namespaces(api: Api) -> None:
    """Without a namespace in the path the list covers them all, sorted by namespace and name."""
    await _three(api)
    other = f"{api.namespace}-b"
    (await api.create("namespaces", {"metadata": {"name": other}})).ok()
    path = api.path("configmaps", namespace=other)
    (await api.call("POST", path, config_map("a"))).ok()
    items = (await api.call("GET", "/api/v1/configmaps")).ok()["items"]
    keys = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in items]
    mine = [key for key in keys if key[0] in (api.namespace, other)]
    first = [(api.namespace, name) for name in ("a", "b", "c")]
    assert sorted(mine) == [*first, (other, "a")]
    assert mine == sorted(mine, key="/".join)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", ["b", "c"]),
        ("tier==web", ["b", "c"]),
        ("tier!=web", ["a"]),
        ("env", ["a", "b"]),
        ("!env", ["c"]),
        ("tier in (web,db),env", ["a", "b"]),
        ("tier notin (db)", ["b", "c"]),
        ("env!=prod", ["c"]),
        ("env notin (prod)", ["c"]),
        ("tier=web,env=prod", ["b"]),
        ("tier=nothing", []),
        ("tier=", []),
        ("", ["a", "b", "c"]),
    ],
)
async def test_label_selectors(api: Api, selector: str, names: list[str]) -> None:
    """Equality, sets and existence; what has no such label differs from every value."""
    await _three(api)
    assert await api.names("configmaps", labelSelector=selector) == names


@pytest.mark.parametrize(
    "selector", ["tier in web", "tier=(a)", "a b", "=x", "tier in ()x", "tier=a=b", "-x=y"]
)
async def test_bad_label_selectors(api: Api, selector: str) -> None:
    """A selector that cannot be read is 400."""
    (await api.get("configmaps", labelSelector=selector)).status(400, "BadRequest")


async def test_field_selectors(api: Api) -> None:
    """metadata.name of all kinds; of Pods also phase and node."""
    await _three(api)
    assert await api.names("configmaps", fieldSelector="metadata.name=b") == ["b"]
    assert await api.names("configmaps", fieldSelector="metadata.name!=b") == ["a", "c"]
    namespace = f"metadata.namespace={api.namespace}"
    assert await api.names("configmaps", fieldSelector=namespace) == ["a", "b", "c"]
    (await api.create("pods", pod("p"))).ok()
    (await api.create("pods", pod("q", nodeName="somewhere"))).ok()
    assert await api.names("pods", fieldSelector="spec.nodeName=somewhere") == ["q"]
    assert await api.names("pods", fieldSelector="spec.nodeName=") == ["p"]
    assert await api.names("pods", fieldSelector="status.phase=Pending") == ["p", "q"]
    assert await api.names("pods", fieldSelector="status.phase!=Pending,metadata.name=p") == []


async def test_selectable_fields_of_custom_resources(api: Api) -> None:
    """A definition may name further fields to select by."""
    (await api.create("widgets", widget("a"))).ok()
    (await api.create("widgets", widget("b", colour="green"))).ok()
    assert await api.names("widgets", fieldSelector="spec.colour=green") == ["b"]
    assert await api.names("widgets", fieldSelector="spec.colour!=green") == ["a"]


@pytest.mark.parametrize("selector", ["data.x=1", "metadata.name", "spec.nodeName=x"])
async def test_unknown_fields_cannot_be_selected(api: Api, selector: str) -> None:
    """A field that has no selector is 400, never an unfiltered list."""
    (await api.get("configmaps", fieldSelector=selector)).status(400, "BadRequest")
    (await api.get("widgets", fieldSelector=selector)).status(400, "BadRequest")


async def test_pages(api: Api) -> None:
    """limit cuts, continue goes on where it stopped, all pages show one version."""
    for number in range(5):
        (await api.create("configmaps", config_map(f"c{number}"))).ok()
    first = (await api.get("configmaps", limit=2)).ok()
    assert [item["metadata"]["name"] for item in first["items"]] == ["c0", "c1"]
    assert first["metadata"]["remainingItemCount"] == 3
    (await api.create("configmaps", config_map("c11"))).ok()
    (await api.delete("configmaps", "c4")).ok()
    second = (
        await api.get("configmaps", limit=2, **{"continue": first["metadata"]["continue"]})
    ).ok()
    third = (
        await api.get("configmaps", limit=2, **{"continue": second["metadata"]["continue"]})
    ).ok()
    names = [item["metadata"]["name"] for page in (second, third) for item in page["items"]]
    assert names == ["c2", "c3", "c4"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]
    assert "remainingItemCount" not in third["metadata"]


async def test_pages_with_a_selector(api: Api) -> None:
    """Pages of a selection are full pages, and how many remain is not told."""
    for number in range(6):
        labels = {"even": "yes"} if number % 2 == 0 else {}
        (await api.create("configmaps", config_map(f"c{number}", labels))).ok()
    first = (await api.get("configmaps", limit=2, labelSelector="even")).ok()
    assert [item["metadata"]["name"] for item in first["items"]] == ["c0", "c2"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    rest = (await api.get("configmaps", limit=2, labelSelector="even", **{"continue": token})).ok()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c4"]


async def test_a_limit_that_is_not_reached(api: Api) -> None:
    """A page that holds everything has no continuation."""
    await _three(api)
    for limit in (3, 4, 0):
        assert "continue" not in (await api.get("configmaps", limit=limit)).ok()["metadata"]


async def test_a_continue_token_that_is_none(api: Api) -> None:
    """A made-up token is 400."""
    (await api.get("configmaps", limit=1, **{"continue": "nonsense"})).status(400, "BadRequest")


async def test_continue_and_resource_version_exclude_each_other(api: Api) -> None:
    """A token already says which version: naming one beside it is 400."""
    await _three(api)
    token = (await api.get("configmaps", limit=1)).ok()["metadata"]["continue"]
    answer = await api.get("configmaps", limit=1, resourceVersion="1", **{"continue": token})
    answer.status(400, "BadRequest")


@pytest.mark.slow
async def test_an_expired_continue_token(api: Api, world: World) -> None:
    """When the version of a token is forgotten the answer is 410 Expired."""
    await _three(api)
    token = (await api.get("configmaps", limit=1)).ok()["metadata"]["continue"]
    for name in ("d", "e", "f"):
        (await api.create("configmaps", config_map(name))).ok()
    async with world.without_history():
        answer = await api.get("configmaps", limit=1, **{"continue": token})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")


async def test_versions_of_a_list(api: Api) -> None:
    """ "0" is any version, a version is at least that one, Exact is that one."""
    await _three(api)
    version = (await api.get("configmaps")).ok()["metadata"]["resourceVersion"]
    (await api.create("configmaps", config_map("d"))).ok()
    assert (await api.get("configmaps", resourceVersion="0")).code == 200
    assert await api.names("configmaps", resourceVersion=version) == ["a", "b", "c", "d"]
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert await api.names("configmaps", **exact) == ["a", "b", "c"]
    newer = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert await api.names("configmaps", **newer) == ["a", "b", "c", "d"]


async def test_bad_versions_of_a_list(api: Api) -> None:
    """A version that is no number, or a match rule without one, is refused."""
    assert (await api.get("configmaps", resourceVersion="abc")).code == 400
    answer = await api.get("configmaps", resourceVersionMatch="Exact")
    assert answer.code in (400, 422)
    answer = await api.get("configmaps", resourceVersion="0", resourceVersionMatch="Exact")
    assert answer.code in (400, 422)


async def test_a_version_from_the_future(api: Api) -> None:
    """A version that was never reached is an error that says so, after a short wait at most."""
    (await api.create("configmaps", config_map("a"))).ok()
    future = str(int((await api.get("configmaps")).ok()["metadata"]["resourceVersion"]) + 1_000_000)
    failure = (await api.get("configmaps", resourceVersion=future)).status(504, "Timeout")
    assert "Too large resource version" in failure["message"]
    causes = failure["details"]["causes"]
    assert causes[0]["reason"] == "ResourceVersionTooLarge"
    assert failure["details"]["retryAfterSeconds"] == 1
    (await api.get("configmaps", "a", resourceVersion=future)).status(504, "Timeout")


async def test_partial_metadata(api: Api) -> None:
    """A client that asks for metadata only gets nothing else."""
    (await api.create("configmaps", config_map("a", {"x": "y"}, big="data"))).ok()
    one = await api.call("GET", api.path("configmaps", "a"), accept=PARTIAL)
    assert (one.ok()["kind"], one.ok()["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert set(one.ok()) == {"kind", "apiVersion", "metadata"}
    assert one.ok()["metadata"]["labels"] == {"x": "y"}
    many = await api.call("GET", api.path("configmaps"), accept=PARTIAL_LIST)
    assert many.ok()["kind"] == "PartialObjectMetadataList"
    assert many.ok()["apiVersion"] == "meta.k8s.io/v1"
    assert set(many.ok()["items"][0]) <= {"kind", "apiVersion", "metadata"}
    assert many.ok()["metadata"]["resourceVersion"]


async def test_lists_of_cluster_scoped_kinds(api: Api) -> None:
    """Kinds without namespaces list at their own path, and not below a namespace."""
    name = f"g-{api.namespace}"
    (await api.create("gadgets", gadget(name))).ok()
    assert name in await api.names("gadgets")
    path = f"/apis/contract.example.com/v1/namespaces/{api.namespace}/gadgets"
    assert (await api.call("GET", path)).code == 404
