"""What operator and API use for snapshots: over every way to the helper."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from boilerhouse.core.names import AGENT_PORT
from boilerhouse.node.helper import snapshot_routes
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.platform.rpc.server import Server
from boilerhouse.tenancy.instances.build import agent_secret
from boilerhouse.tenancy.snapshots.agents import Agents, AgentUnavailable
from boilerhouse.tenancy.snapshots.client import HelperUnavailable
from boilerhouse.tenancy.snapshots.routes import Direct, Proxied
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.unit.node.agent.agent_fixture import listening
from tests.unit.node.helper.archives import archive
from tests.unit.node.helper.helper_fixture import SPEC, House, placed
from tests.unit.node.helper.pretender import TOKEN, Pretender
from tests.unit.tenancy.snapshots.test_client import through_proxy

WAYS = ["direct", "proxied", "in process"]


@pytest.fixture(params=WAYS)
async def snapshots(request: pytest.FixtureRequest, house: House) -> SnapshotClient:
    """Each way to the helper."""
    agents = Agents(house.client)
    match request.param:
        case "direct":
            return SnapshotClient(house.client, Direct(house.client), agents)
        case "proxied":
            await through_proxy(house)
            return SnapshotClient(house.client, Proxied(house.client), agents)
        case _:
            return SnapshotClient(house.client, house.helper.handle, agents)


@dataclass
class Instance:
    """A Pod whose agent pretends."""

    name: str
    uid: str
    agent: Pretender
    server: Server


@pytest.fixture
async def instances(house: House) -> AsyncIterator[list[Instance]]:
    made = []
    for number in (1, 2):
        name, agent, listener = f"inst-{number}", Pretender(b"%d" % number), listening()
        port: int = listener.getsockname()[1]
        server = Server("agent", agent)
        await server.start(listener)
        await house.client.create(SECRETS, agent_secret(name, TOKEN))
        pod = await placed(
            house.client, {"metadata": {"name": name}, "spec": SPEC}, AGENT_PORT, port
        )
        made.append(Instance(name, pod.metadata.uid, agent, server))
    yield made
    for one in made:
        await one.server.stop()


async def test_a_life(snapshots: SnapshotClient, instances: list[Instance]) -> None:
    """Saved here, found, restored there, saved again."""
    first, second = instances
    first.agent.data = os.urandom(1 << 20)
    assert await snapshots.current("anna", "shop") is None
    saved = await snapshots.save(
        first.name, first.uid, tenant="anna", workload="shop", base="", keep=2
    )
    assert saved.current
    current = await snapshots.current("anna", "shop")
    assert current is not None and current.digest == saved.digest == first.agent.digest
    assert (await snapshots.state(first.name, first.uid)).frozen
    await snapshots.thaw(first.name, first.uid)
    assert not (await snapshots.state(first.name, first.uid)).frozen
    restored = await snapshots.restore(
        second.name, second.uid, tenant="anna", workload="shop", digest=saved.digest, mode="cold"
    )
    assert not restored.already
    assert second.agent.data == first.agent.data
    again = await snapshots.save(
        second.name, second.uid, tenant="anna", workload="shop", base=saved.digest
    )
    assert (again.unchanged, again.current) == (True, True)


async def test_archives(snapshots: SnapshotClient) -> None:
    """Put, listed, fetched, promoted, removed."""
    one, two = archive({"a": b"1"}), archive({"a": b"2"})
    first, _ = await snapshots.put("anna", "shop", Body(one), expect="")
    second, _ = await snapshots.put("anna", "shop", Body(two), expect=first.digest)
    assert await snapshots.put("anna", "shop", Body(two), expect=second.digest) == (second, False)
    assert await snapshots.promote("anna", "shop", 2) == (second, False)
    with pytest.raises(Refused, match="by now"):
        await snapshots.put("anna", "shop", Body(two), expect=first.digest)
    await snapshots.put("ben", "shop", Body(one))
    assert [(item.tenant, item.seq) for item in await snapshots.list()] == [("anna", 2), ("ben", 1)]
    every = await snapshots.list(tenant="anna", workload="shop", versions=True)
    assert [item.seq for item in every] == [2, 1]
    async with snapshots.open_archive("anna", "shop") as (version, body):
        assert version == second
        assert await body.read(1 << 20) == two
    async with snapshots.open_archive("anna", "shop", 1) as (version, body):
        assert version.path.startswith("/snapshots/.v/anna/shop/1-")
        assert await body.read(1 << 20) == one
    promoted, new = await snapshots.promote("anna", "shop", 1)
    assert new and (promoted.digest, promoted.seq, promoted.kind) == (first.digest, 3, "restore")
    await snapshots.delete("anna", "shop", 2)
    await snapshots.delete("anna", "shop")
    assert await snapshots.list(tenant="anna") == []
    with pytest.raises(Refused) as refused:
        await snapshots.delete("anna", "shop")
    assert (refused.value.status, refused.value.code) == (404, "no-snapshot")
    with pytest.raises(Refused) as refused:
        async with snapshots.open_archive("anna", "shop"):
            pass
    assert refused.value.code == "no-snapshot"


async def test_odd_ids(snapshots: SnapshotClient) -> None:
    """Any legal id passes every way unchanged."""
    for tenant in ("a b", "ünï/cøde".replace("/", "-"), "50% & more?", "+1", "🦄"):
        await snapshots.put(tenant, "shop", Body(archive({"a": tenant.encode()})))
        current = await snapshots.current(tenant, "shop")
        assert current is not None and current.tenant == tenant
    assert len(await snapshots.list()) == 5
    with pytest.raises(Refused, match="tenant id"):
        await snapshots.current("../a", "shop")


async def test_whose_fault_it_is(
    house: House, snapshots: SnapshotClient, instances: list[Instance]
) -> None:
    """A dead agent is not a dead helper; a dead helper is never an empty list."""
    await instances[0].server.stop()
    with pytest.raises(AgentUnavailable, match="inst-1"):
        await snapshots.save("inst-1", instances[0].uid, tenant="anna", workload="shop", base="")
    with pytest.raises(AgentUnavailable, match="another one"):
        await snapshots.thaw("inst-2", "earlier")


async def test_damage_breaks_off(
    house: House, snapshots: SnapshotClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged archive never looks like a good one to whoever fetches it, small or large."""
    await snapshots.put("anna", "shop", Body(archive({"a": os.urandom(500_000)})))
    path = tmp_path / "snapshots" / "anna" / "shop.tar.gz"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(Refused) as refused:
        async with snapshots.open_archive("anna", "shop"):
            pass
    assert (refused.value.status, refused.value.code) == (409, "corrupt-version")
    monkeypatch.setattr(snapshot_routes, "READ_FIRST", 1000)
    with pytest.raises(HelperUnavailable):
        async with snapshots.open_archive("anna", "shop") as (_, body):
            await body.read(1 << 20)


async def test_no_helper(house: House) -> None:
    """An outage is `HelperUnavailable`, for lists and look-ups too."""
    snapshots = SnapshotClient(house.client, Direct(house.client), Agents(house.client))
    await snapshots.list()
    await house.helper.stop()
    with pytest.raises(HelperUnavailable):
        await snapshots.list()
    with pytest.raises(HelperUnavailable):
        await snapshots.current("anna", "shop")


async def test_a_full_volume_and_a_broken_one(
    house: House, snapshots: SnapshotClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full is the caller's to see (507), broken is an outage."""
    real = os.write

    def full(file: int, data: bytes) -> int:
        if ".tmp" in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(28, "No space left on device")
        return real(file, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Refused) as refused:
        await snapshots.put("anna", "shop", Body(archive({})))
    assert (refused.value.status, refused.value.code) == (507, "volume-full")
    monkeypatch.setattr(os, "write", real)
    assert await snapshots.current("anna", "shop") is None
    await snapshots.put("anna", "shop", Body(archive({})))


async def test_waiting_for_long_ones(house: House, instances: list[Instance]) -> None:
    """However often the client is told to come again, it comes."""
    snapshots = SnapshotClient(house.client, house.helper.handle, Agents(house.client))
    saves = house.helper._snapshots._saves
    saves._patience = 0.01
    [one, _] = instances
    one.agent.gate = asyncio.Event()
    asking = asyncio.create_task(
        snapshots.save(one.name, one.uid, tenant="anna", workload="shop", base="")
    )
    await one.agent.streaming.acquire()
    await asyncio.sleep(0.05)
    assert not asking.done()
    one.agent.gate.set()
    assert (await asking).current
