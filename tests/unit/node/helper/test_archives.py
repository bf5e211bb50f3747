"""Archives fetched, put, listed and removed through the helper."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.node.helper import wire
from boilerhouse.node.helper.snapshot_routes import Capacity
from boilerhouse.node.helper.wire import Version
from boilerhouse.platform.archive.model import Limits
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from tests.security.archives.hostile import END, directory, file, hard_link, symlink
from tests.unit.node.helper.archives import archive
from tests.unit.node.helper.bench import Bench, working
from tests.unit.node.helper.operations.test_saving import refused

WHOSE = (("tenant", "anna"), ("workload", "shop"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with working(tmp_path / "snapshots") as made:
        yield made


async def put(bench: Bench, content: bytes, *query: tuple[str, str]) -> Version:
    body = await bench.read("PUT", wire.ARCHIVE, *WHOSE, *query, body=Body(content))
    return Version.decode(body)


async def test_there_and_back(bench: Bench) -> None:
    """What is put can be fetched, bit for bit, and says what it is."""
    content = archive({"a": os.urandom(1 << 20), "b": b"x"})
    made = await put(bench, content)
    assert (made.kind, made.current, made.entries) == ("import", True, 3)
    assert made.content == (1 << 20) + 1
    answer = await bench.ask("GET", wire.ARCHIVE, *WHOSE)
    assert Version.decode(answer.headers[wire.VERSION].encode()) == made
    assert answer.body.length == len(content)
    assert await answer.body.read(1 << 22) == content
    await answer.body.close()
    assert made.digest == hashlib.sha256(content).hexdigest()
    assert bench.file() == content


async def test_only_what_is_expected_is_replaced(bench: Bench) -> None:
    """An import can say what it replaces, and is refused if that changed."""
    first = await put(bench, archive({"a": b"1"}), ("expect", ""))
    assert (await refused("changed", put(bench, archive({}), ("expect", "")))).status == 409
    await put(bench, archive({"a": b"2"}), ("expect", first.digest))
    assert not bench.leftovers()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not compressed by gzip"),
        (b"hello", "not compressed by gzip"),
        (gzip.compress(b"hello" * 1000, mtime=0), "header"),
        (gzip.compress(b"", mtime=0), "in the middle"),
        (archive({"a": os.urandom(100_000)}, whole=False), "in the middle"),
        (archive({"a": b"x"}) + b"junk", "not compressed by gzip"),
        (archive({"a": b"x"}) + bytes(300_000) + b"junk", "behind the gzip stream"),
        (archive({"a": b"x"}) + bytes(3) + archive({"b": b"x"}), "behind the gzip stream"),
        (bytes(3) + archive({"a": b"x"}), "not compressed by gzip"),
        (archive({"../../etc/passwd": b"x"}), ".. in it"),
    ],
)
async def test_what_is_no_archive(bench: Bench, content: bytes, why: str) -> None:
    """It is refused with the reason, and nothing is stored."""
    error = await refused("bad-archive", put(bench, content))
    assert error.status == 422
    assert why in str(error)
    assert await bench.current() is None
    assert not bench.leftovers()


@pytest.mark.parametrize("zeros", [1, 2, 511, 1_000_000])
async def test_padding_behind_the_stream(bench: Bench, zeros: int) -> None:
    """Zeros, as blocks of tapes and devices leave them, are no part of the archive."""
    made = await put(bench, archive({"a": b"x"}) + bytes(zeros))
    assert (made.entries, made.size) == (2, len(archive({"a": b"x"})) + zeros)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([symlink(b"data/l", b"/tmp"), file(b"data/l/x")], "'l' is no directory"),
        ([hard_link(b"data/h", b"/etc/passwd")], "absolute"),
        ([hard_link(b"data/h", b"elsewhere/x")], "is linked to"),
        ([symlink(b"data", b"/etc")], "overlay directory is something else"),
        ([file(b"data/d/x"), file(b"data/d")], "with entries and something else"),
    ],
)
async def test_what_no_instance_would_take(bench: Bench, members: list[bytes], why: str) -> None:
    """It never becomes a version if one knows where it would go; else only names are judged."""
    content = gzip.compress(b"".join(members) + END)
    error = await refused("bad-archive", put(bench, content, ("overlay", "/data")))
    assert (error.status, why in str(error)) == (422, True)
    assert await bench.current() is None
    assert not bench.leftovers()
    await put(bench, content)


async def test_what_has_no_place(bench: Bench) -> None:
    """An archive of nothing that the workload keeps is refused; an empty directory will do."""
    for content in (gzip.compress(END), archive({"a": b"x"})):
        error = await refused("nothing-to-restore", put(bench, content, ("overlay", "/data")))
        assert (error.status, "begin with data/" in str(error)) == (422, True)
        await put(bench, content)
    await put(bench, gzip.compress(directory(b"data/") + END), ("overlay", "/data"))


async def test_what_is_too_large(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of what can be restored hold for what is stored."""
    monkeypatch.setattr(Limits, "of_disk", lambda gb: Limits(entries=2))
    assert (await refused("too-large", put(bench, archive({"a": b"", "b": b""})))).status == 413
    monkeypatch.setattr(Limits, "of_disk", lambda gb: Limits(content=1 << 20))
    bomb = archive({"zeros": bytes(64 << 20)})
    assert len(bomb) < 1 << 20
    assert (await refused("too-large", put(bench, bomb))).status == 413
    assert await bench.current() is None


async def test_an_upload_has_the_room_of_the_workload(bench: Bench) -> None:
    """Twice its diskGb, and the refusal says so; a file is counted where it announces itself."""
    member = tarfile.TarInfo("workspace/big")
    member.size = 3 << 30
    announced = gzip.compress(member.tobuf(), mtime=0)
    error = await refused("too-large", put(bench, announced, ("disk", "1")))
    assert error.status == 413
    assert "workspace/big" in str(error) and "2 GiB in files, twice the workload's diskGb" in str(
        error
    )
    # With more disk it is not too large, only cut short.
    await refused("bad-archive", put(bench, announced, ("disk", "2")))
    assert await bench.current() is None


async def test_an_upload_that_breaks_off(bench: Bench) -> None:
    """Half an upload is no upload."""

    class Half(Body):
        def __init__(self) -> None:
            super().__init__(b"x" * 1000)
            self.length = None

        async def __anext__(self) -> bytes:
            try:
                return await super().__anext__()
            except StopAsyncIteration:
                raise Broken("gone") from None

    with pytest.raises(Broken):
        await bench.ask("PUT", wire.ARCHIVE, *WHOSE, body=Half())
    assert not bench.leftovers()
    assert await bench.current() is None


async def test_transfers_are_bounded(tmp_path: Path) -> None:
    """So many at a time; who waits too long is told to come again; closed ones leave room."""
    async with working(tmp_path / "s", Capacity(transfers=1, queue=0.01)) as bench:
        await put(bench, archive({}))
        answer = await bench.ask("GET", wire.ARCHIVE, *WHOSE)
        assert (await refused("busy", put(bench, archive({"a": b""})))).status == 503
        await answer.body.close()
        await answer.body.close()
        for _ in range(3):
            with pytest.raises(Refused):
                await bench.ask("GET", wire.ARCHIVE, *WHOSE, ("seq", "9"))
            await put(bench, archive({}))


async def test_versions_are_removed(bench: Bench) -> None:
    """One, or all; what is not there is 404."""
    for number in range(2):
        await put(bench, archive({"a": b"%d" % number}))
    assert (
        await refused("current-version", bench.read("DELETE", "/snapshots", *WHOSE, ("seq", "2")))
    ).status == 409
    await bench.read("DELETE", "/snapshots", *WHOSE, ("seq", "1"))
    assert [one.seq for one in await bench.versions()] == [2]
    await bench.read("DELETE", "/snapshots", *WHOSE)
    assert await bench.current() is None
    assert (await refused("no-snapshot", bench.read("DELETE", "/snapshots", *WHOSE))).status == 404
    assert (await refused("no-snapshot", bench.read("GET", wire.ARCHIVE, *WHOSE))).status == 404


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ((("tenant", "../x"), ("workload", "shop")), "bad-tenant"),
        ((("tenant", ".v"), ("workload", "shop")), "bad-tenant"),
        ((("workload", "shop"),), "bad-tenant"),
        ((("tenant", "a"),), "bad-workload"),
        ((("tenant", "a"), ("workload", "shop"), ("seq", "-1")), "bad-number"),
        ((("tenant", "a"), ("workload", "shop"), ("seq", "١")), "bad-number"),
    ],
)
async def test_names_are_checked(
    bench: Bench, query: tuple[tuple[str, str], ...], code: str
) -> None:
    """What cannot be a tenant, a workload or a number is 400 before the disk is looked at."""
    for method, path in (("GET", wire.ARCHIVE), ("DELETE", wire.SNAPSHOTS)):
        assert (await refused(code, bench.ask(method, path, *query))).status == 400


async def test_unknown_paths(bench: Bench) -> None:
    """There is nothing else under /snapshots."""
    for method, path in (("GET", "/snapshots/x"), ("POST", "/snapshots"), ("GET", "/snapshotsx")):
        assert (await refused("no-such-path", bench.ask(method, path))).status == 404


async def test_many_at_once(bench: Bench) -> None:
    """Imports into one place follow each other: as many versions as were put, one is current."""
    contents = [archive({"a": b"%d" % number}) for number in range(6)]
    made = await asyncio.gather(*(put(bench, content, ("keep", "9")) for content in contents))
    assert sorted(one.seq for one in made) == [1, 2, 3, 4, 5, 6]
    versions = await bench.versions()
    assert [one.seq for one in versions if one.current] == [6]
    assert bench.file() in contents
