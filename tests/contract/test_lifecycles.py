"""Our own definitions as servers enforce them: every edge and every non-edge of every lifecycle."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from boilerhouse.core.crd import CustomResource
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.wire import JSON_PATCH
from tests.api_fixture import World
from tests.contract.conftest import install
from tests.contract.driver import Answer, Api, Body

RESOURCES = catalogue.RESOURCES
SPECS: dict[str, dict[str, Any]] = {
    "BoilerhouseWorkload": {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": 1, "memoryMb": 64, "diskGb": 1},
        "network": {"access": "none"},
    },
    "BoilerhousePool": {"workloadRef": "w", "size": 1},
    "BoilerhouseClaim": {"tenantId": "tenant", "workloadRef": "w"},
    "BoilerhouseTrigger": {"type": "webhook", "workloadRef": "w", "tenant": {"static": "t"}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def domain(api: Api, world: World) -> Api:
    """The namespace, in a world that knows our kinds."""
    if "catalogue" not in world.installed:
        await install(api, *catalogue.crds())
        world.installed.add("catalogue")
    return api


def body(resource: CustomResource, name: str = "a") -> Body:
    return {
        "apiVersion": "boilerhouse.dev/v1alpha1",
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": SPECS[resource.kind],
    }


async def _walk(api: Api, resource: CustomResource, name: str, target: str) -> None:
    """Create an object and bring it into a phase by a shortest walk."""
    (await api.create(resource.plural, body(resource, name))).ok()
    phases = resource.machine.path(next(p for p in resource.machine.phases if p == target))
    for phase in phases[1:]:
        patch = {"status": {"phase": str(phase)}}
        (await api.patch(resource.plural, name, patch, "status")).ok()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
async def test_born_in_the_first_phase(domain: Api, resource: CustomResource) -> None:
    """A new object has the first phase without anybody writing it, and no other can be given."""
    sent = body(resource) | {"status": {"phase": "Error"}}
    created = (await domain.create(resource.plural, sent)).ok()
    assert created["status"] == {"phase": str(resource.machine.initial)}
    assert created["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resource", "source"),
    [(r, str(phase)) for r in RESOURCES for phase in r.machine.phases],
    ids=lambda value: value.kind if isinstance(value, CustomResource) else value,
)
async def test_every_transition(domain: Api, resource: CustomResource, source: str) -> None:
    """From each phase exactly the phases of the table can be written."""
    machine = resource.machine
    start = next(phase for phase in machine.phases if phase == source)
    for number, target in enumerate(machine.phases):
        name = f"o{number}"
        await _walk(domain, resource, name, source)
        patch = {"status": {"phase": str(target)}}
        answer = await domain.patch(resource.plural, name, patch, "status")
        if machine.allows(start, target):
            assert answer.ok()["status"]["phase"] == target
        else:
            assert ("status.phase", "FieldValueInvalid") in answer.causes()
            now = (await domain.get(resource.plural, name)).ok()["status"]["phase"]
            assert now == source


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
async def test_phases_of_no_table(domain: Api, resource: CustomResource) -> None:
    """A phase that the lifecycle does not have is refused."""
    (await domain.create(resource.plural, body(resource))).ok()
    for phase in ("Nonsense", "", str(resource.machine.initial).lower()):
        answer = await domain.patch(resource.plural, "a", {"status": {"phase": phase}}, "status")
        assert ("status.phase", "FieldValueNotSupported") in answer.causes()


REMOVE_STATUS = [{"op": "remove", "path": "/status"}]
DETOURS: dict[str, Callable[[Api, CustomResource, Body], Awaitable[Answer]]] = {
    "null status": lambda api, r, _: api.patch(r.plural, "a", {"status": None}, "status"),
    "null phase": lambda api, r, _: api.patch(r.plural, "a", {"status": {"phase": None}}, "status"),
    "no status": lambda api, r, whole: api.update(r.plural, without(whole, "status"), "status"),
    "empty status": lambda api, r, whole: api.update(r.plural, whole | {"status": {}}, "status"),
    "removed status": lambda api, r, _: api.patch(
        r.plural, "a", REMOVE_STATUS, "status", content=JSON_PATCH
    ),
    "null status in the object": lambda api, r, _: api.patch(r.plural, "a", {"status": None}),
}


def without(whole: Body, key: str) -> Body:
    return {name: value for name, value in whole.items() if name != key}


@pytest.mark.parametrize("detour", DETOURS)
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
async def test_no_detour_over_an_absent_phase(
    domain: Api, resource: CustomResource, detour: str
) -> None:
    """Whatever is tried, a phase is there afterwards, and getting there was an edge."""
    for phase in resource.machine.phases:
        await _walk(domain, resource, "a", str(phase))
        whole = (await domain.get(resource.plural, "a")).ok()
        await DETOURS[detour](domain, resource, whole)
        now = (await domain.get(resource.plural, "a")).ok()["status"]["phase"]
        assert resource.machine.allows(phase, now)
        (await domain.delete(resource.plural, "a")).ok()


async def test_a_claim_cannot_be_rewritten(domain: Api) -> None:
    """The spec of a Claim is what was asked for: no field of it changes."""
    resource = next(r for r in RESOURCES if r.kind == "BoilerhouseClaim")
    (await domain.create(resource.plural, body(resource))).ok()
    for change in ({"tenantId": "other"}, {"workloadRef": "other"}, {"resume": False}):
        answer = await domain.patch(resource.plural, "a", {"spec": change})
        assert answer.code == 422, change
    label = {"metadata": {"labels": {"x": "y"}}}
    assert (await domain.patch(resource.plural, "a", label)).code == 200


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
async def test_unknown_fields_under_strict(domain: Api, resource: CustomResource) -> None:
    """A misspelt field is an error for whoever asks for strictness."""
    sent = body(resource)
    sent["spec"] = {**sent["spec"], "mispelt": 1}
    answer = await domain.create(resource.plural, sent, fieldValidation="Strict")
    failure = answer.status(400, "BadRequest")
    assert 'unknown field "spec.mispelt"' in failure["message"]


async def test_printer_columns(domain: Api) -> None:
    """`kubectl get claims` shows the columns of the definition."""
    resource = next(r for r in RESOURCES if r.kind == "BoilerhouseClaim")
    (await domain.create(resource.plural, body(resource))).ok()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = (await domain.call("GET", domain.path(resource.plural), accept=accept)).ok()
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", *(column.title for column in resource.columns), "Age"]
    assert {"Source", "Instance"} <= set(names)


def test_every_pair_is_walked() -> None:
    """The suite's own table covers each (phase, phase) of each lifecycle."""
    pairs = sum(len(list(itertools.product(r.machine.phases, repeat=2))) for r in RESOURCES)
    assert pairs == sum(len(r.machine.phases) ** 2 for r in RESOURCES) > 40
