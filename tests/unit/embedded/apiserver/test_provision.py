"""What is there before anybody asks: made once, brought up to date, otherwise left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.provision import provision
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.operator import catalogue
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.conftest import Start

CRDS = "customresourcedefinitions"
CLAIMS = "boilerhouseclaims.boilerhouse.dev"


def definitions() -> list[dict[str, Any]]:
    """Return our definitions, for a test to change as it likes."""
    copied: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(catalogue.crds()))
    return copied


async def test_what_is_missing_is_made(start: Start) -> None:
    """Every definition is served."""
    async with start() as embedded:
        await provision(InProcess(embedded.server), definitions())
        for crd in definitions():
            found = (await embedded.api.get(CRDS, crd["metadata"]["name"])).ok()
            assert {"type": "Established", "status": "True"}.items() <= next(
                each.items() for each in found["status"]["conditions"] if each["type"][0] == "E"
            )


async def test_a_start_with_the_same_release_writes_nothing(start: Start) -> None:
    """Definitions that are there already cost no revision, also after a restart."""
    async with start() as embedded:
        await provision(InProcess(embedded.server), definitions())
        revision = embedded.store.revision
        await provision(InProcess(embedded.server), definitions())
        assert embedded.store.revision == revision
    async with start() as embedded:
        await provision(InProcess(embedded.server), definitions())
        assert embedded.store.revision == revision


async def test_a_definition_of_an_earlier_release_becomes_todays(start: Start) -> None:
    """A field that the earlier release had beside today's goes, one that it lacked comes."""
    earlier = definitions()
    claims = next(crd for crd in earlier if crd["metadata"]["name"] == CLAIMS)
    spec = claims["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["gone"] = {"type": "string"}
    claims["spec"]["names"].pop("shortNames")
    async with start() as embedded:
        await provision(InProcess(embedded.server), earlier)
        old = (await embedded.api.get(CRDS, CLAIMS)).ok()["spec"]
        await provision(InProcess(embedded.server), definitions())
        new = (await embedded.api.get(CRDS, CLAIMS)).ok()["spec"]
    today = next(crd for crd in definitions() if crd["metadata"]["name"] == CLAIMS)["spec"]
    assert new["versions"] == today["versions"] != old["versions"]
    assert new["names"]["shortNames"] == today["names"]["shortNames"]


async def test_a_namespace_that_was_asked_for_is_there_and_stays(tmp_path: Path) -> None:
    """It is made at each start that finds it missing, and may not be deleted, as `default`."""
    for _ in range(2):
        store = await Store.open(tmp_path)
        server = ApiServer(store, SystemClock(), ("shop",))
        await server.start()
        api = Api(InProcess(server), "shop")
        assert (await api.get("namespaces", "shop")).code == 200
        assert (await api.delete("namespaces", "shop")).code == 403
        await server.stop()
        await store.close()
