"""Work in the background that meets what it cannot handle: the rest is done, and it is told once.

What no client could have written is put straight into the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.background import expiry, faults
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Remove, Store
from boilerhouse.platform.kube.wire import Reply, Request
from tests.contract.driver import Api
from tests.contract.objects import owned

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(faults, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(expiry, "EVERY_SECONDS", 0.05)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


@pytest.fixture
async def store(tmp_path: Path, logs: list[Any]) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data")
    yield opened
    await opened.close()


@pytest.fixture
async def server(store: Store) -> AsyncIterator[ApiServer]:
    started = ApiServer(store, SystemClock())
    await started.start()
    yield started
    await started.stop()


def stored(kind: str, name: str, metadata: Body, **fields: Any) -> Body:
    about = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": kind, "metadata": {**about, **metadata}, **fields}


DYING = "2026-01-01T00:00:00Z"
POISON = {
    "collector": (
        Key("configmaps", "default", "odd"),
        stored("ConfigMap", "odd", {"namespace": "default", "ownerReferences": [{"uid": "u"}]}),
    ),
    "changes": (
        Key("configmaps", "default", "odd"),
        stored("ConfigMap", "odd", {"namespace": "default", "ownerReferences": [{}]}),
    ),
    "namespaces": (
        Key("namespaces", "", "odd"),
        stored("Namespace", "odd", {"deletionTimestamp": DYING}, status="text", spec="text"),
    ),
    "definitions": (
        Key("customresourcedefinitions.apiextensions.k8s.io", "", "odds.x.dev"),
        stored("CustomResourceDefinition", "odds.x.dev", {}),
    ),
    "expiry": (
        Key("events", "default", "odd"),
        stored("Event", "odd", {"namespace": "default"}, lastTimestamp="yesterday"),
    ),
}


async def readiness(server: ApiServer) -> tuple[int, str]:
    reply = await server.handle(Request("GET", "/readyz"))
    assert isinstance(reply, Reply)
    return reply.status, reply.body.decode()


async def until_ready_is(server: ApiServer, status: int) -> str:
    async with asyncio.timeout(10):
        while True:
            found, text = await readiness(server)
            if found == status:
                return text
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("part", POISON)
async def test_what_cannot_be_handled_is_waited_out(
    part: str, store: Store, server: ApiServer, logs: list[Any]
) -> None:
    """The part lives, readiness names it, and when the cause is gone so is the complaint."""
    key, body = POISON[part]
    await store.submit(Put(key, body))
    assert part in await until_ready_is(server, 503)
    await asyncio.sleep(0.3)  # several tries
    await store.submit(Remove(key, stored(body["kind"], key.name, {})))
    assert await until_ready_is(server, 200) == "ok"
    said = [(line["event"], line["part"]) for line in logs if "part" in line]
    assert said == [("background.failing", part), ("background.recovered", part)]
    # It still does its work: the chain from a deleted owner to a removed dependent.
    api = Api(InProcess(server), "default")
    owner = (await api.create("configmaps", {"metadata": {"name": "owner"}})).ok()
    await api.create("configmaps", owned({"metadata": {"name": "d"}}, owner))
    (await api.delete("configmaps", "owner")).ok()
    await api.gone("configmaps", "d", timeout=5)


async def test_one_fault_is_one_line_for_however_many(
    store: Store, server: ApiServer, logs: list[Any]
) -> None:
    """A hundred objects fail for one reason: one line. Objects beside them are collected."""
    _, body = POISON["collector"]
    for n in range(100):
        await store.submit(Put(Key("configmaps", "default", f"odd{n}"), body))
    api = Api(InProcess(server), "default")
    owner = (await api.create("configmaps", {"metadata": {"name": "owner"}})).ok()
    await api.create("configmaps", owned({"metadata": {"name": "d"}}, owner))
    (await api.delete("configmaps", "owner")).ok()
    await api.gone("configmaps", "d", timeout=5)
    assert "collector" in await until_ready_is(server, 503)
    assert [line["event"] for line in logs if "part" in line] == ["background.failing"]
