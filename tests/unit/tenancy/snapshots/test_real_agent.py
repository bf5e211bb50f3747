"""Helper, store and the real agent together: what was in the directories is there again."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
from pathlib import Path

import pytest

from boilerhouse.core.names import AGENT_PORT
from boilerhouse.node.helper.wire import Restored, Saved
from boilerhouse.platform.archive.model import Limits
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.snapshots import UnfitVersion
from boilerhouse.tenancy.instances.build import agent_secret
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.filing import HelperSnapshots
from boilerhouse.tenancy.snapshots.routes import Direct
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.security.archives.hostile import END, file, symlink
from tests.unit.node.agent.agent_fixture import SECRET, Rig, running
from tests.unit.node.helper.helper_fixture import INSTANCE, SPEC, House, placed

pytestmark = pytest.mark.processes


def client(house: House) -> SnapshotClient:
    return SnapshotClient(house.client, Direct(house.client), Agents(house.client))


async def second(house: House, rig: Rig, name: str = "inst-shop-2") -> str:
    """Make a Pod whose agent this is; returns its UID."""
    await house.client.create(SECRETS, agent_secret(name, SECRET))
    body = {"metadata": {"name": name}, "spec": SPEC}
    return (await placed(house.client, body, AGENT_PORT, rig.port)).metadata.uid


async def save(snapshots: SnapshotClient, pod: str, uid: str, base: str) -> Saved:
    return await snapshots.save(pod, uid, tenant="anna", workload="shop", base=base)


async def restore(snapshots: SnapshotClient, pod: str, uid: str, digest: str) -> Restored:
    """Restore, as soon as the agent has seen the end of what was tried before."""
    for _ in range(200):
        try:
            return await snapshots.restore(
                pod, uid, tenant="anna", workload="shop", digest=digest, mode="cold"
            )
        except Refused as refused:
            if refused.code != "busy":
                raise
        await asyncio.sleep(0.05)
    raise AssertionError("the agent is busy for ever")


def listed(archive: Path) -> list[str]:
    ran = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True)
    return sorted(ran.stdout.split())


async def test_there_and_back(house: House, tmp_path: Path) -> None:
    """Saved, readable by plain tar, restored elsewhere, unchanged; changed, and saved on top."""
    snapshots, uid = client(house), house.pod.metadata.uid
    content = os.urandom(2 << 20)
    (house.rig.workspace / "big").write_bytes(content)
    (house.rig.workspace / "empty").mkdir()
    saved = await save(snapshots, INSTANCE, uid, "")
    assert (saved.current, saved.conflict) == (True, False)
    stored = tmp_path / "snapshots" / "anna" / "shop.tar.gz"
    assert {"workspace/", "workspace/big", "workspace/empty/"} <= set(listed(stored))
    assert (await snapshots.state(INSTANCE, uid)).frozen
    again = await save(snapshots, INSTANCE, uid, "")
    assert (again.unchanged, again.digest, again.seq) == (True, saved.digest, 1)

    (tmp_path / "second").mkdir()
    async with running(tmp_path / "second", restore=saved.digest) as rig:
        name, other = "inst-shop-2", await second(house, rig)
        restored = await restore(snapshots, name, other, saved.digest)
        assert not restored.already
        assert (rig.workspace / "big").read_bytes() == content
        assert (rig.workspace / "empty").is_dir()
        repeated = await restore(snapshots, name, other, saved.digest)
        assert repeated.already
        unchanged = await save(snapshots, name, other, saved.digest)
        assert (unchanged.unchanged, unchanged.seq) == (True, 1)
        await snapshots.thaw(name, other)
        (rig.workspace / "new").write_text("new")
        changed = await save(snapshots, name, other, saved.digest)
        assert (changed.current, changed.unchanged, changed.seq) == (True, False, 2)
    assert "workspace/new" in listed(stored)
    versions = await snapshots.list(tenant="anna", versions=True)
    assert [(one.seq, one.base) for one in versions] == [(2, saved.digest), (1, "")]


async def test_what_no_instance_takes(house: House, tmp_path: Path) -> None:
    """However much was still to come when it was refused: that is known, and not tried again."""
    snapshots = client(house)
    filing = HelperSnapshots(
        snapshots, HelperClient(house.client, Direct(house.client), Agents(house.client))
    )
    evil = [symlink(b"workspace/l", b"/tmp"), file(b"workspace/l/x")]
    evil += [file(b"workspace/%d" % n, os.urandom(1 << 20)) for n in range(30)]
    packed = await asyncio.to_thread(gzip.compress, b"".join(evil) + END, 1)
    made, _ = await snapshots.put("anna", "shop", Body(packed))
    (tmp_path / "second").mkdir()
    async with running(tmp_path / "second", restore=made.digest) as rig:
        name, other = "inst-shop-2", await second(house, rig)
        with pytest.raises(UnfitVersion, match="'l' is no directory"):
            await filing.restore(
                name, other, tenant="anna", workload="shop", digest=made.digest, mode="cold"
            )
        assert list(rig.workspace.iterdir()) == []


async def test_a_tenants_own_files_have_no_limit(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever uploads may have: what was saved here is saved and restored at any size."""
    snapshots, uid = client(house), house.pod.metadata.uid
    monkeypatch.setattr(Limits, "of_disk", lambda gb: Limits(entries=2, content=1 << 20))
    for name in ("a", "b", "c"):
        (house.rig.workspace / name).write_bytes(os.urandom(1 << 20))
    saved = await save(snapshots, INSTANCE, uid, "")
    (tmp_path / "second").mkdir()
    async with running(tmp_path / "second", restore=saved.digest) as rig:
        name, other = "inst-shop-2", await second(house, rig)
        await snapshots.restore(
            name, other, tenant="anna", workload="shop", digest=saved.digest, mode="cold"
        )
        for name in ("a", "b", "c"):
            assert (rig.workspace / name).stat().st_size == 1 << 20
    others = b"".join(file(b"workspace/%d" % n) for n in range(3))
    with pytest.raises(Refused) as refused:
        await snapshots.put("bert", "shop", Body(gzip.compress(others + END)))
    assert (refused.value.status, refused.value.code) == (413, "too-large")


async def test_a_damaged_version_leaves_the_instance_empty_and_waiting(
    house: House, tmp_path: Path
) -> None:
    """Nothing half-restored: the agent has no marker, and takes a good version afterwards."""
    snapshots, uid = client(house), house.pod.metadata.uid
    (house.rig.workspace / "file").write_bytes(os.urandom(1 << 20))
    saved = await save(snapshots, INSTANCE, uid, "")
    stored = tmp_path / "snapshots" / "anna" / "shop.tar.gz"
    good = stored.read_bytes()
    damaged = bytearray(good)
    damaged[-9] ^= 1
    stored.write_bytes(damaged)
    (tmp_path / "second").mkdir()
    async with running(tmp_path / "second", restore=saved.digest) as rig:
        name, other = "inst-shop-2", await second(house, rig)
        with pytest.raises(Refused) as refused:
            await restore(snapshots, name, other, saved.digest)
        assert (refused.value.status, refused.value.code) == (409, "corrupt-version")
        assert not (await snapshots.state(name, other)).restored
        assert await rig.started() == 503
        stored.write_bytes(good)
        await restore(snapshots, name, other, saved.digest)
        assert await rig.started() == 204
        assert (rig.workspace / "file").stat().st_size == 1 << 20
