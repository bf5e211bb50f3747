"""The image store over HTTP and from the command line."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from boilerhouse.cli.app import app
from boilerhouse.core.clock import SystemClock
from boilerhouse.edge.api.app import application
from boilerhouse.edge.api.serving import serving
from boilerhouse.embedded.kubelet.images.images import ImageStore
from boilerhouse.platform.serving.listening import bind
from boilerhouse.run.localimages import LocalImages
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.unit.edge.api.conftest import Rest
from tests.unit.embedded.kubelet.images.imagefiles import (
    docker_archive,
    endless_archive,
    entry,
    layer,
    until_unpacking,
)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images", SystemClock())


@pytest.fixture
async def http(rest: Rest, store: ImageStore) -> AsyncIterator[httpx2.AsyncClient]:
    """The API of a services that has an image store."""
    services = dataclasses.replace(rest.services, shelf=LocalImages(store))
    asgi = httpx2.ASGITransport(app=application(services))
    async with httpx2.AsyncClient(transport=asgi, base_url="http://127.0.0.1/api/v1") as client:
        yield client


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return docker_archive(tmp_path / "app.tar", [layer([entry("hello", b"x" * 4096)])], ["app:1"])


@pytest.fixture
def tar(archive: Path) -> bytes:
    return archive.read_bytes()


@pytest.mark.processes
async def test_an_image_comes_is_listed_and_goes(
    http: httpx2.AsyncClient, tar: bytes, store: ImageStore
) -> None:
    """Imported under its own name, or the one that is given; gone when it is deleted."""
    made = await http.post("/images", content=tar)
    assert (made.status_code, [image["name"] for image in made.json()]) == (201, ["app:1"])
    await http.post("/images", content=tar, params={"name": "team/other"})
    listed = (await http.get("/images")).json()
    assert [image["name"] for image in listed] == ["app:1", "team/other:latest"]
    assert listed[0]["digest"].startswith("sha256:") and listed[0]["sizeBytes"] >= 4096
    gone = await http.delete("/images", params={"name": "team/other"})
    assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
    again = await http.delete("/images", params={"name": "team/other"})
    assert (again.status_code, again.json()["code"]) == (404, "ImageNotFound")
    assert store.names() == ["app:1"]


@pytest.mark.processes
async def test_a_workload_that_waited_for_its_image_is_looked_at(
    http: httpx2.AsyncClient, tar: bytes, rest: Rest
) -> None:
    """The import wakes it: no back-off has to end first."""
    rest.world.images.absent.add("app:1")
    await rest.world.workload("web", image={"ref": "app:1"})
    await rest.world.until(WORKLOADS, "web", lambda w: w.status.get("phase") == "Error")
    rest.world.images.absent.clear()
    await http.post("/images", content=tar)
    await rest.world.until(WORKLOADS, "web", lambda w: w.status.get("phase") == "Ready", timeout=5)


@pytest.mark.processes
async def test_what_is_no_image_is_refused(
    http: httpx2.AsyncClient, tar: bytes, store: ImageStore
) -> None:
    """422 and why; nothing is left of it, not even the file it came in."""
    bad = await http.post("/images", content=b"not a tar")
    assert "ReadError" not in bad.text and "method" not in bad.text
    assert (bad.status_code, bad.json()["code"]) == (422, "Invalid")
    taken = await http.post("/images", content=b"", params={"name": "host"})
    assert taken.status_code == 422 and "host" in taken.json()["error"]
    odd = await http.post("/images", content=tar, params={"name": "bad name!"})
    assert odd.status_code == 422 and "'bad name!'" in odd.json()["error"]
    assert store.names() == []
    assert not [path for path in _files(store) if path.name.startswith(".incoming")]


def _files(store: ImageStore) -> list[Path]:
    with store.inbox() as file:
        return [path for path in Path(file.name).parent.iterdir() if str(path) != file.name]


@pytest.mark.processes
async def test_an_image_that_is_used_stays(
    http: httpx2.AsyncClient, tar: bytes, store: ImageStore
) -> None:
    """409 names who runs on it."""
    await http.post("/images", content=tar)
    image = store.get("app:1")
    assert image is not None
    store.hold(image, "boilerhouse/inst-alice/tenant")
    kept = await http.delete("/images", params={"name": "app:1"})
    assert (kept.status_code, kept.json()["code"]) == (409, "ImageInUse")
    assert "inst-alice" in kept.json()["error"]


@pytest.mark.slow
async def test_an_archive_beyond_the_limit_is_refused(
    http: httpx2.AsyncClient, store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it comes, and not after it has filled the disk."""
    monkeypatch.setattr("boilerhouse.run.localimages.ARCHIVE_BYTES", 1000)
    bad = await http.post("/images", content=b"x" * 2000)
    assert bad.status_code == 422 and "larger" in bad.json()["error"]


@pytest.mark.processes
async def test_a_server_that_stops_does_not_wait_for_an_import(
    rest: Rest, store: ImageStore, tmp_path: Path
) -> None:
    """It answers 503 at once, and clears away what was unpacked by then."""
    services = dataclasses.replace(rest.services, shelf=LocalImages(store))
    content = endless_archive(tmp_path / "endless.tar").read_bytes()
    async with (
        serving(services, bind("127.0.0.1", [0])) as address,
        httpx2.AsyncClient(base_url=f"{address}/api/v1", timeout=60) as client,
    ):
        asked = asyncio.create_task(client.post("/images", content=content))
        await asyncio.to_thread(until_unpacking, tmp_path / "images")
        assert (await client.get("/images")).json() == []
        services.streams.end()
        answer = await asked
    assert (answer.status_code, answer.json()["code"]) == (503, "ShuttingDown")
    assert {path.name for path in (tmp_path / "images").rglob("*")} == {"layers", "config"}


async def test_a_cluster_has_no_image_store(rest: Rest) -> None:
    """It says so instead of an empty list."""
    for answer in (await rest.get("/images"), await rest.http.post("/api/v1/images", content=b"")):
        assert (answer.status_code, answer.json()["code"]) == (404, "NoImageStore")


@pytest.mark.processes
async def test_the_command_line_of_images(rest: Rest, archive: Path, store: ImageStore) -> None:
    """`image import`, `ls` and `rm`, with bodies beyond what other calls may send."""
    services = dataclasses.replace(rest.services, shelf=LocalImages(store))
    big = docker_archive(
        archive.with_name("big.tar"), [layer([entry("big", b"y" * (4 << 20))])], ["big:1"]
    )
    async with serving(services, bind("127.0.0.1", [0])) as address:

        async def run(*arguments: str) -> Result:
            env = {"BOILERHOUSE_URL": address}
            return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=env)

        assert (await run("image", "import", str(big))).output == "big:1\n"
        assert (await run("image", "import", str(archive), "--name", "mine")).exit_code == 0
        listed = (await run("image", "ls")).output
        assert "big:1" in listed and "mine:latest" in listed
        assert (await run("image", "rm", "big:1")).exit_code == 0
        missing = await run("image", "rm", "big:1")
        assert missing.exit_code == 1 and "big:1" in missing.output
    assert store.names() == ["mine:latest"]


@pytest.mark.slow
async def test_why_tells_what_a_claim_waits_for(rest: Rest) -> None:
    """`boilerhouse why claim/…` in sentences; what was never looked at is not found."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["claim"]
    async with serving(rest.services, bind("127.0.0.1", [0])) as address:

        async def run(*arguments: str) -> Result:
            env = {"BOILERHOUSE_URL": address}
            return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=env)

        told = await run("why", f"claim/{name}")
        assert told.exit_code == 0 and "write Active" in told.output
        assert '"passes"' in (await run("why", f"claim/{name}", "-o", "json")).output
        assert (await run("why", "claim/nobody")).exit_code == 1
        assert (await run("why", "claim")).exit_code == 2
