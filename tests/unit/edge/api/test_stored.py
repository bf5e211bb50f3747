"""Stored snapshots over HTTP, with a real store behind them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.edge.api.auth import Caller
from boilerhouse.platform.rpc.message import Answer, Request
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.security.archives.hostile import END, file, symlink
from tests.unit.edge.api.conftest import Rest, archive

OF_ALICE = "/tenants/alice/workloads/web/snapshots"


async def put(rest: Rest, content: bytes, tenant: str = "alice", **query: str) -> httpx2.Response:
    path = f"/api/v1/tenants/{tenant}/workloads/web/snapshots"
    return await rest.http.put(path, content=content, params=query)


@pytest.fixture
async def rest(storing: Rest) -> Rest:
    await storing.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
    return storing


async def test_what_was_put_is_listed_and_comes_back(rest: Rest, tmp_path: Path) -> None:
    """S3's fields and more, at S3's path on the volume, byte for byte."""
    content = archive(notes="hello")
    made = await put(rest, content)
    assert made.status_code == 201, made.text
    digest = hashlib.sha256(content).hexdigest()
    expected = {
        "tenantId": "alice",
        "workloadRef": "web",
        "path": "/snapshots/alice/web.tar.gz",
        "digest": digest,
        "size": len(content),
        "current": True,
        "kind": "import",
    }
    assert expected.items() <= made.json().items()
    for path in ("/snapshots", "/workloads/web/snapshots", "/tenants/alice/snapshots", OF_ALICE):
        listed = (await rest.get(path)).json()
        assert [one["digest"] for one in listed] == [digest]
    version = made.json()["version"]
    for which in (version, "current"):
        assert (await rest.get(f"{OF_ALICE}/{which}")).json()["digest"] == digest
        back = await rest.get(f"{OF_ALICE}/{which}/archive")
        assert back.content == content
        assert back.headers["content-type"] == "application/gzip"
        assert back.headers["etag"] == f'"{digest}"'
        assert back.headers["content-length"] == str(len(content))
    assert (tmp_path / "snapshots/alice/web.tar.gz").read_bytes() == content


async def test_versions_are_kept_gone_back_to_and_removed(rest: Rest) -> None:
    """The newest first; going back makes a new one; the current one goes with everything only."""
    first = (await put(rest, archive(n="1"))).json()
    second = (await put(rest, archive(n="2"))).json()
    listed = (await rest.get(OF_ALICE)).json()
    assert [one["version"] for one in listed] == [second["version"], first["version"]]
    assert [one["current"] for one in listed] == [True, False]
    back = await rest.post(f"{OF_ALICE}/{first['version']}/restore")
    assert back.status_code == 201, back.text
    assert back.json()["digest"] == first["digest"]
    assert back.json()["version"] > second["version"]
    for again in (
        await rest.post(f"{OF_ALICE}/{first['version']}/restore"),
        await put(rest, archive(n="1")),
    ):
        assert (again.status_code, again.json()) == (200, back.json())
    gone = await rest.http.delete(f"/api/v1{OF_ALICE}/{second['version']}")
    assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
    held = await rest.http.delete(f"/api/v1{OF_ALICE}/{back.json()['version']}")
    assert held.status_code == 409
    everything = await rest.http.delete(f"/api/v1{OF_ALICE}")
    assert everything.status_code == 200
    assert (await rest.get(OF_ALICE)).json() == []
    assert (await rest.get(f"{OF_ALICE}/current")).status_code == 404


@pytest.mark.slow
async def test_no_more_versions_are_kept_than_the_workload_says(rest: Rest) -> None:
    """`filesystem.keepVersions` is the policy, also for what is put."""
    path = "/api/v1/workloads/web"
    spec = (await rest.get("/workloads/web")).json()["spec"]
    spec["filesystem"] = {"overlayDirs": ["/workspace"], "keepVersions": 2}
    assert (await rest.http.put(path, json={"spec": spec})).status_code in (200, 201)
    await rest.world.settles(lambda: _keeps(rest, 2))
    for n in range(4):
        assert (await put(rest, archive(n=str(n)))).status_code == 201
    assert len((await rest.get(OF_ALICE)).json()) == 2


async def _keeps(rest: Rest, count: int) -> bool:
    held = await rest.services.workload("web")
    return bool((held.spec.get("filesystem") or {}).get("keepVersions") == count)


async def test_what_could_never_be_restored_is_not_stored(rest: Rest) -> None:
    """422 with the reason before it becomes current: what is refused, and what has no place."""
    good = (await put(rest, archive(n="1"))).json()
    refused = await put(rest, gzip.compress(symlink(b"workspace", b"/etc") + END))
    assert (refused.status_code, refused.json()["code"]) == (422, "BadArchive")
    for content in (file(b"etc/passwd"), b""):
        useless = await put(rest, gzip.compress(content + END))
        assert (useless.status_code, useless.json()["code"]) == (422, "NothingToRestore")
        assert "must begin with workspace/" in useless.json()["error"]
    current = (await rest.get(f"{OF_ALICE}/current")).json()
    assert current["digest"] == good["digest"]


async def test_a_workload_that_keeps_nothing_takes_no_archive(rest: Rest) -> None:
    """Without overlay directories there is no place that an archive could go."""
    await rest.world.ready_workload("bare")
    path = "/api/v1/tenants/alice/workloads/bare/snapshots"
    refused = await rest.http.put(path, content=archive(n="1"))
    assert (refused.status_code, refused.json()["code"]) == (422, "NothingToRestore")
    assert "overlayDirs" in refused.json()["error"]


async def test_an_upload_may_say_what_it_replaces(rest: Rest) -> None:
    """`expect` is a compare-and-swap: another current version is 409, and nothing is stored."""
    first = (await put(rest, archive(n="1"), expect="none")).json()
    again = await put(rest, archive(n="2"), expect="none")
    assert again.status_code == 409
    assert (await put(rest, archive(n="2"), expect=first["digest"])).status_code == 201


async def test_a_claim_while_an_archive_comes_is_in_use(rest: Rest) -> None:
    """409 as if it had been there before: the instance works on what it was told is there."""
    old, new = archive(n="1"), archive(n="2")
    await put(rest, old)
    assert rest.services.snapshots is not None
    snapshots = rest.services.snapshots

    async def pieces() -> AsyncIterator[bytes]:
        yield new[:10]
        await snapshots.current("alice", "web", claim=True)
        yield new[10:]

    answer = await rest.http.put(f"/api/v1{OF_ALICE}", content=pieces())
    assert (answer.status_code, answer.json()["code"]) == (409, "SnapshotInUse")
    assert "release it first" in answer.json()["error"]
    assert answer.json()["details"] == {"tenantId": "alice", "workloadRef": "web"}
    assert [one["size"] for one in (await rest.get(OF_ALICE)).json()] == [len(old)]


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", archive(n="1")[:-20]],
    ids=["nothing", "not gzip", "cut short"],
)
async def test_what_is_no_archive_is_not_stored(rest: Rest, content: bytes) -> None:
    """422 that says why, and the list stays empty."""
    answer = await put(rest, content)
    assert (answer.status_code, answer.json()["code"]) == (422, "BadArchive")
    assert (await rest.get(OF_ALICE)).json() == []


@pytest.mark.slow
async def test_bodies_larger_than_other_requests_may_have(rest: Rest) -> None:
    """Only archives may be large: megabytes go in and come out in pieces."""
    random = hashlib.shake_256(b"seed").hexdigest(2 << 20)
    content = archive(big=random * 2)
    assert len(content) > (3 << 20)
    assert (await put(rest, content)).status_code == 201
    assert (await rest.get(f"{OF_ALICE}/current/archive")).content == content


async def test_a_tenant_that_only_has_snapshots_is_one(rest: Rest) -> None:
    """200 with no claims; somebody with neither is 404."""
    await put(rest, archive(n="1"))
    found = await rest.get("/tenants/alice")
    assert (found.status_code, found.json()) == (200, {"tenantId": "alice", "claims": []})
    assert (await rest.get("/tenants/bob")).status_code == 404


async def test_a_scoped_caller_sees_its_own(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant's token with tenants:read lists that tenant's snapshots of that workload only."""
    await put(rest, archive(n="1"))
    await put(rest, archive(n="2"), tenant="bob")
    alice = Caller(False, "alice", "web", frozenset({"tenants:read"}))

    async def as_alice(token: Any) -> Caller:
        return alice

    monkeypatch.setattr(rest.services.auth, "caller", as_alice)
    assert [one["tenantId"] for one in (await rest.get("/snapshots")).json()] == ["alice"]
    assert [one["tenantId"] for one in (await rest.get("/workloads/web/snapshots")).json()] == [
        "alice"
    ]
    assert (await rest.get("/tenants/alice/snapshots")).status_code == 200
    assert (await rest.get("/tenants/bob/snapshots")).status_code == 404
    assert (await rest.get("/workloads/other/snapshots")).status_code == 404
    assert (await rest.get(f"{OF_ALICE}/current/archive")).status_code == 403
    assert (await put(rest, archive(n="3"))).status_code == 403


async def test_a_helper_that_is_gone_is_503_everywhere(rest: Rest) -> None:
    """Lists, single versions, tenants: an outage is never "nothing is there"."""

    async def away(request: Request) -> Answer:
        raise Unreachable("connection refused")

    client = SnapshotClient(rest.world.client, away, Agents(rest.world.client))
    object.__setattr__(rest.services, "snapshots", client)
    for path in ("/snapshots", "/workloads/web/snapshots", OF_ALICE, f"{OF_ALICE}/1", "/tenants/x"):
        answer = await rest.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "HelperUnavailable"), path
    assert (await put(rest, archive(n="1"))).status_code == 503


@pytest.mark.slow
async def test_a_refusal_reaches_who_sends_everything_first(rest: Rest) -> None:
    """Refused before or after it was read: the answer comes, not a connection that was reset."""
    body = b"x" * (24 << 20)
    async with rest.served() as address:
        host, port = address.removeprefix("http://").split(":")
        nowhere = "/tenants/alice/workloads/nothing/snapshots"
        for path, expected in ((OF_ALICE, b"422"), (nowhere, b"404")):
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"PUT /api/v1{path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
            head += "connection: close\r\n"  # else the server lets the rest come by itself
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode())
            writer.write(body)
            await writer.drain()
            assert (await reader.readline()).split()[1] == expected
            writer.close()


@pytest.mark.slow
async def test_a_caller_that_hangs_up_stores_nothing(rest: Rest, tmp_path: Path) -> None:
    """Half an archive leaves no version, no leftovers, and no place taken."""
    async with rest.served() as address:
        host, port = address.removeprefix("http://").split(":")
        for _ in range(12):  # more often than there are places
            _, writer = await asyncio.open_connection(host, int(port))
            head = f"PUT /api/v1{OF_ALICE} HTTP/1.1\r\nhost: {host}:{port}\r\n"
            writer.write(f"{head}content-length: 1000000\r\n\r\n".encode() + b"x" * 70_000)
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.close()
        async with httpx2.AsyncClient(base_url=address, timeout=30) as http:
            done = await http.put(f"/api/v1{OF_ALICE}", content=archive(n="1"))
    assert done.status_code == 201, done.text
    assert len((await rest.get(OF_ALICE)).json()) == 1
    stored = [path for path in (tmp_path / "snapshots").rglob("*") if path.is_file()]
    assert sum("tar.gz" in path.name for path in stored) == 2  # the version, and current


@pytest.mark.slow
async def test_a_download_that_is_given_up_frees_its_place(rest: Rest) -> None:
    """Callers who leave in the middle do not keep others from their archives."""
    random = hashlib.shake_256(b"seed").hexdigest(4 << 20)
    content = archive(big=random)
    assert (await put(rest, content)).status_code == 201
    async with rest.served() as address, httpx2.AsyncClient(base_url=address, timeout=30) as http:
        path = f"/api/v1{OF_ALICE}/current/archive"
        for _ in range(12):
            async with http.stream("GET", path) as answer:
                await anext(answer.aiter_raw())
        assert (await http.get(path)).content == content


async def test_the_schema_tells_of_the_body(rest: Rest) -> None:
    """OpenAPI names the archive as the body of the upload."""
    paths = (await rest.http.get("/schema/openapi.json")).json()["paths"]
    upload = paths["/api/v1/tenants/{tenant}/workloads/{workload}/snapshots"]["put"]
    assert list(upload["requestBody"]["content"]) == ["application/gzip"]
