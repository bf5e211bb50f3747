"""Volumes as directories: content, modes, owners, and nothing through links."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.container import Mount, SandboxError
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.objects.containerspec import Refused
from boilerhouse.embedded.kubelet.objects.references import Missing, References
from boilerhouse.embedded.kubelet.volumes.persistentclaims import PersistentClaims
from boilerhouse.embedded.kubelet.volumes.volumes import Volume, Volumes, mounts
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import CONFIG_MAPS, PVCS, SECRETS
from tests.embedded_fixture import EmbeddedWorld

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Yard:
    """Two Pods' volumes over one API and one directory; notes who was given what."""

    def __init__(self, client: Client, directory: Path) -> None:
        self.client = client
        self.data = directory / "data"
        self.data.mkdir()
        (directory / "shm").mkdir()
        self.memory = Memory.open(self.data, directory / "shm")
        self.claims = PersistentClaims(
            client, self.data, {("default", "boilerhouse-snapshots"): "snapshots"}
        )
        self.owned: list[Path] = []

    def volumes(self, uid: str) -> Volumes:
        references = References(self.client, "default")
        return Volumes(self.data / "pods" / uid, uid, self.memory, self.claims, references)

    async def one(self, uid: str = "u", given: bool = True, **source: Any) -> Volume:
        spec = {"volumes": [{"name": "v", **source}]}
        return (await self.volumes(uid).prepare(spec, {"v"} if given else set(), self.own))["v"]

    def own(self, path: Path) -> None:
        self.owned.append(path.parent.resolve() / path.name)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    world = EmbeddedWorld(tmp_path / "api")
    (tmp_path / "api").mkdir()
    await world.open()
    yield Yard(Client(world.transport(), "default"), tmp_path)
    await world.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_an_empty_dir_keeps_its_content(yard: Yard) -> None:
    """Prepared again after a restart of ours, it has what it had."""
    first = await yard.one(emptyDir={})
    (first.path / "file").write_text("kept")
    again = await yard.one(emptyDir={})
    assert (again.path / "file").read_text() == "kept"
    assert mode(again.path) == 0o777
    assert yard.owned == [first.path, first.path]


async def test_memory_and_secrets_are_not_on_disk(yard: Yard, tmp_path: Path) -> None:
    """Both lie in the memory file system, with the modes asked for."""
    await yard.client.create(
        SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "1", "b": "2"}}
    )
    assert (await yard.one(emptyDir={"medium": "Memory"})).path.is_relative_to(tmp_path / "shm")
    items = [{"key": "a", "path": "deep/er/a", "mode": 0o440}]
    found = await yard.one(secret={"secretName": "s", "defaultMode": 0o400, "items": items})
    assert found.path.is_relative_to(tmp_path / "shm")
    assert found.read_only
    assert (found.path / "deep/er/a").read_text() == "1"
    assert mode(found.path / "deep/er/a") == 0o440
    assert not (found.path / "b").exists()
    assert {found.path, found.path / "deep", found.path / "deep/er"} <= set(yard.owned)


async def test_what_only_we_mount_stays_ours(yard: Yard) -> None:
    """The token of an agent is not given to the tenant."""
    await yard.client.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "1"}})
    await yard.one(given=False, secret={"secretName": "s", "defaultMode": 0o400})
    assert yard.owned == []


async def test_a_config_map_that_is_missing(yard: Yard) -> None:
    """Named in the error; an optional one is an empty directory; binary data is written as is."""
    with pytest.raises(Missing, match='configmap "c" not found'):
        await yard.one(configMap={"name": "c"})
    assert not list((await yard.one(configMap={"name": "c", "optional": True})).path.iterdir())
    body = {"metadata": {"name": "c"}, "data": {"t": "text"}, "binaryData": {"b": "/wA="}}
    await yard.client.create(CONFIG_MAPS, body)
    found = await yard.one(configMap={"name": "c", "defaultMode": 0o644})
    assert (found.path / "b").read_bytes() == b"\xff\x00"
    with pytest.raises(Missing, match="non-existent configmap key: x"):
        await yard.one(configMap={"name": "c", "items": [{"key": "x", "path": "x"}]})


async def test_a_claim_is_bound_and_one_pods_at_a_time(yard: Yard) -> None:
    """Its directory outlives the Pod; the next Pod is given every file; ours is DIR/snapshots."""
    with pytest.raises(Missing, match='persistentvolumeclaim "p" not found'):
        await yard.one(persistentVolumeClaim={"claimName": "p"})
    for name in ("p", "boilerhouse-snapshots"):
        await yard.client.create(PVCS, {"metadata": {"name": name}, "spec": CLAIM})
    found = await yard.one("one", persistentVolumeClaim={"claimName": "p"})
    (found.path / "file").write_text("kept")
    bound = await yard.client.get(PVCS, "p")
    assert bound.status.phase == "Bound"
    assert bound.status.capacity == {"storage": "1Gi"}
    with pytest.raises(Missing, match="in use by another Pod"):
        await yard.one("two", persistentVolumeClaim={"claimName": "p"})
    yard.volumes("one").let_go()
    yard.owned.clear()
    again = await yard.one("two", persistentVolumeClaim={"claimName": "p"})
    assert (again.path / "file").read_text() == "kept"
    assert again.path / "file" in yard.owned
    ours = await yard.one(persistentVolumeClaim={"claimName": "boilerhouse-snapshots"})
    assert ours.path == yard.data / "snapshots"


def test_sub_paths_are_single_names(tmp_path: Path) -> None:
    """Deeper ones are refused: a tenant could put a link in the way."""
    volumes = {"v": Volume(tmp_path, read_only=False)}
    owned: list[Path] = []

    def one(part: str) -> Mount:
        given = {"name": "v", "mountPath": "/x", "subPath": part, "readOnly": True}
        return mounts({"volumeMounts": [given]}, volumes, owned.append)[0]

    assert one("sub") == Mount(tmp_path / "sub", "/x", read_only=True)
    assert owned == [tmp_path / "sub"]
    with pytest.raises(Refused, match="a/b"):
        one("a/b")


async def test_secrets_do_not_outlive_us(yard: Yard) -> None:
    """When we leave, what can be written anew goes; what a tenant wrote into memory stays."""
    await yard.client.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "1"}})
    secret = {"name": "s", "secret": {"secretName": "s"}}
    written = {"name": "m", "emptyDir": {"medium": "Memory"}}
    for volumes, left in (([secret], []), ([secret, written], ["u"])):
        spec = {"volumes": volumes}
        await yard.volumes("u").prepare(spec, set(), yard.own)
        await yard.volumes("u").leave(spec)
        assert yard.memory.pods() == left
        assert not (yard.memory.path("u") / "s").exists()


def test_memory_of_a_lost_data_directory(tmp_path: Path) -> None:
    """Whoever opens next removes what belonged to a directory that is gone, and nothing else."""
    place = tmp_path / "shm"
    for name in ("shm", "lost", "kept", "mine"):
        (tmp_path / name).mkdir()
    for name in ("lost", "kept"):
        (Memory.open(tmp_path / name, place).directory("u") / "file").write_text("x")
    (tmp_path / "lost").rmdir()
    Memory.open(tmp_path / "mine", place)
    assert sorted(of.readlink().name for of in place.glob("*/of")) == ["kept", "mine"]
    assert Memory.open(tmp_path / "kept", place).pods() == ["u"]


def test_memory_must_be_ours(tmp_path: Path) -> None:
    """A link or a file in the place of our directory is refused, not used."""
    place = tmp_path / "shm"
    place.mkdir()
    made = Memory.open(tmp_path, place)
    made.directory("u")
    assert Memory.open(tmp_path, place).pods() == ["u"]
    (root,) = place.iterdir()
    made.remove("u")
    made.close()
    root.symlink_to(tmp_path)
    with pytest.raises(SandboxError, match="not ours"):
        Memory.open(tmp_path, place)
