"""The fixture `api`: a fresh namespace in each world."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.kube.wire import Transport
from tests.contract.driver import Api
from tests.contract.objects import GADGETS, WIDGETS, Body
from tests.worlds import EmbeddedWorld, RealWorld, World

_NUMBERS = itertools.count(1)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """The API server that a test runs against: a fresh one of ours, and the session's real one."""
    if request.param == "real":
        real: RealWorld = request.getfixturevalue("real_world")
        yield real
        return
    embedded = EmbeddedWorld(tmp_path / "world")
    await embedded.open()
    yield embedded
    await embedded.close()


@pytest.fixture
async def transport(world: World) -> AsyncIterator[Transport]:
    transport = world.transport()
    yield transport
    await transport.close()


@pytest.fixture
async def api(world: World, transport: Transport) -> Api:
    """Calls in a namespace that no other test uses, with the suite's definitions installed."""
    name = f"t{next(_NUMBERS)}"
    api = Api(transport, name)
    if "widgets" not in world.installed:
        await install(api, WIDGETS, GADGETS)
        world.installed.add("widgets")
    (await api.create("namespaces", {"metadata": {"name": name}})).ok()

    async def account() -> bool:
        return (await api.get("serviceaccounts", "default")).code == 200

    await api.until(account)
    return api


async def install(api: Api, *definitions: Body) -> None:
    """Create definitions and wait until they are served."""
    for definition in definitions:
        answer = await api.create("customresourcedefinitions", definition)
        assert answer.code in (201, 409), answer.body
    for definition in definitions:
        name = definition["metadata"]["name"]
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"

        async def served(name: str = name, path: str = path) -> bool:
            crd = (await api.get("customresourcedefinitions", name)).ok()
            conditions = crd.get("status", {}).get("conditions") or []
            established = any(
                c["type"] == "Established" and c["status"] == "True" for c in conditions
            )
            return established and (await api.call("GET", path)).code == 200

        await api.until(served)
