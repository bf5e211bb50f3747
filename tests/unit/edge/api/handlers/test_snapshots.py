"""Stored snapshots over HTTP: what is refused before anybody is asked, and by whom."""

from __future__ import annotations

import gzip
import tarfile

import pytest

from tests.unit.edge.api.conftest import KEY, Rest

LISTS = ("/snapshots", "/workloads/web/snapshots", "/tenants/alice/snapshots")
OF_ALICE = "/tenants/alice/workloads/web/snapshots"


@pytest.mark.parametrize("path", [*LISTS, OF_ALICE, f"{OF_ALICE}/1", f"{OF_ALICE}/1/archive"])
async def test_without_a_helper_nothing_is_said_to_be_stored(rest: Rest, path: str) -> None:
    """503 and when to try again, never an empty list."""
    answer = await rest.get(path)
    assert (answer.status_code, answer.json()["code"]) == (503, "HelperUnavailable")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_what_is_in_use_is_not_exchanged(rest: Rest, method: str) -> None:
    """409 while the tenant has an instance, with what to do about it."""
    await rest.world.ready_workload()
    await rest.claim("alice")
    answer = await rest.http.request(method, f"/api/v1{OF_ALICE}", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (409, "SnapshotInUse")
    assert "release it first" in answer.json()["error"]
    back = await rest.post(f"{OF_ALICE}/1/restore")
    assert back.status_code == 409
    removed = await rest.http.delete(f"/api/v1{OF_ALICE}/1")
    assert removed.status_code == 409


@pytest.mark.slow
async def test_a_claim_without_an_instance_yet_uses_its_files(rest: Rest) -> None:
    """Pending is in use: the instance that is coming may restore at any moment."""
    rest.world.kubelet.behaviour = lambda *_: None
    await rest.world.ready_workload()
    await rest.claim("alice", params={"wait": 0})
    answer = await rest.http.delete(f"/api/v1{OF_ALICE}")
    assert answer.status_code == 409
    assert "its claim is Pending" in answer.json()["error"]


@pytest.mark.parametrize("version", ["-1", "one", "1e3", "9999999999", "٣"])
async def test_a_version_is_a_number(rest: Rest, version: str) -> None:
    """Anything else is 400, whatever is done with it."""
    for answer in (
        await rest.get(f"{OF_ALICE}/{version}"),
        await rest.get(f"{OF_ALICE}/{version}/archive"),
        await rest.post(f"{OF_ALICE}/{version}/restore"),
        await rest.http.delete(f"/api/v1{OF_ALICE}/{version}"),
    ):
        assert answer.status_code == 400, answer.text


async def test_the_current_version_is_neither_restored_nor_removed(rest: Rest) -> None:
    """It is what a claim restores already; removing it takes removing everything."""
    assert (await rest.post(f"{OF_ALICE}/current/restore")).status_code == 400
    assert (await rest.http.delete(f"/api/v1{OF_ALICE}/current")).status_code == 400


async def test_uploads_are_judged_before_they_are_read(rest: Rest) -> None:
    """An unknown workload, a wrong digest and a body that is too long never reach the store."""
    put = f"/api/v1{OF_ALICE}"
    assert (await rest.http.put(put, content=b"x")).status_code == 404
    await rest.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
    wrong = await rest.http.put(put, content=b"x", params={"expect": "abc"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "BadRequest")
    long = await rest.http.put(put, content=b"x", headers={"content-length": str(1 << 40)})
    assert (long.status_code, long.json()["code"]) == (413, "TooLarge")


async def test_an_upload_has_the_room_of_its_workload(storing: Rest) -> None:
    """More than twice its diskGb is 413, and the answer names the limit; nothing is stored."""
    await storing.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
    member = tarfile.TarInfo("workspace/big")
    member.size = 3 << 30
    announced = gzip.compress(member.tobuf(), mtime=0)
    answer = await storing.http.put(f"/api/v1{OF_ALICE}", content=announced)
    assert answer.status_code == 413, answer.text
    assert "2 GiB in files, twice the workload's diskGb" in answer.json()["error"]
    assert (await storing.get(OF_ALICE)).json() == []


async def test_tenant_ids_are_checked(rest: Rest) -> None:
    """What cannot be a tenant is 400 with the rule."""
    answer = await rest.get("/tenants/.hidden/snapshots")
    assert (answer.status_code, answer.json()["code"]) == (400, "BadTenantId")


async def test_snapshots_are_not_public(keyed: Rest) -> None:
    """Without the key 401, with it the handler is reached."""
    for path in (*LISTS, OF_ALICE, f"{OF_ALICE}/1/archive"):
        assert (await keyed.get(path)).status_code == 401
        held = await keyed.get(path, headers={"authorization": f"Bearer {KEY}"})
        assert held.status_code == 503
