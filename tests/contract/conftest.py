"""The fixture `api`: a fresh namespace in each world.

All tests of this folder share one event loop, and with it one embedded server and one real one, so
that a test costs a namespace and not a start.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from boilerhouse.platform.kube.wire import Transport
from tests.api_fixture import World
from tests.contract.driver import Api
from tests.contract.objects import GADGETS, WIDGETS, Body
from tests.embedded_fixture import EmbeddedWorld
from tests.real_fixture import RealWorld
from tests.served_fixture import ServedWorld

_NUMBERS = itertools.count(1)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedded_world() -> AsyncIterator[EmbeddedWorld]:
    with tempfile.TemporaryDirectory(prefix="boilerhouse-embedded-") as directory:
        world = EmbeddedWorld(Path(directory) / "world")
        await world.open()
        yield world
        await world.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served_world() -> AsyncIterator[ServedWorld]:
    with tempfile.TemporaryDirectory(prefix="boilerhouse-served-") as directory:
        world = ServedWorld(Path(directory) / "world")
        await world.open()
        yield world
        await world.close()


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("served", marks=pytest.mark.slow),
        pytest.param("real", marks=pytest.mark.real),
    ]
)
def world(request: pytest.FixtureRequest) -> World:
    """The API server that a test runs against."""
    found: EmbeddedWorld | RealWorld = request.getfixturevalue(f"{request.param}_world")
    return found


@pytest_asyncio.fixture(loop_scope="session")
async def transport(world: World) -> AsyncIterator[Transport]:
    transport = world.transport()
    yield transport
    await transport.close()


@pytest_asyncio.fixture(loop_scope="session")
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

        async def established(name: str = name) -> bool:
            found = (await api.get("customresourcedefinitions", name)).ok()
            conditions = found.get("status", {}).get("conditions") or []
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        async def served(path: str = path) -> bool:
            return (await api.call("GET", path, query={"limit": 1})).code == 200

        await api.until(established)
        await api.until(served)
