"""File access: the tenant's files, and nothing else, however the tenant arranges them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from boilerhouse.node.agent.freezer.processes import Process
from boilerhouse.node.agent.protocol import FILE_LIMIT, Listing
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.agent.agent_fixture import Rig, Told, open_descriptors

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def code(told: Told) -> tuple[int, str]:
    return told.status, Refused.of(told.status, told.body).code


class Pieces(Body):
    """A body of unknown length."""

    def __init__(self, *pieces: bytes) -> None:
        self.length = None
        self._pieces = list(pieces)

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop(0)


async def test_round_trip(rig: Rig) -> None:
    """What is written is what the tenant has, and what is read; deleted, it is gone."""
    content = os.urandom(3 << 20)
    assert (await rig.file("PUT", "/workspace/a.bin", content)).status == 204
    assert (rig.workspace / "a.bin").read_bytes() == content
    told = await rig.file("GET", "/workspace/a.bin")
    assert (told.status, told.body) == (200, content)
    assert told.headers["content-type"] == "application/octet-stream"
    assert (await rig.file("DELETE", "/workspace/a.bin")).status == 204
    assert code(await rig.file("GET", "/workspace/a.bin")) == (404, "not-found")
    assert list(rig.workspace.iterdir()) == []


async def test_a_body_of_unknown_length(rig: Rig) -> None:
    """A stream that does not say how long it is arrives whole."""
    assert (await rig.file("PUT", "/workspace/s", Pieces(b"ab", b"", b"cd"))).status == 204
    assert (rig.workspace / "s").read_bytes() == b"abcd"


async def test_directories_are_made_and_listed(rig: Rig) -> None:
    """Writing makes the directories on the way; reading a directory lists it by name."""
    await rig.file("PUT", "/workspace/deep/er/b", b"12345")
    await rig.file("PUT", "/workspace/deep/a", b"")
    (rig.workspace / "deep/link").symlink_to("/etc/passwd")
    os.mkfifo(rig.workspace / "deep/pipe")
    (rig.workspace / "deep").joinpath(os.fsdecode(b"\xff.txt")).touch()
    listing = Listing.decode((await rig.file("GET", "/workspace/deep")).body)
    assert not listing.truncated
    assert [(e.name, e.type, e.escaped) for e in listing.entries] == [
        ("a", "file", None),
        ("er", "directory", None),
        ("link", "symlink", None),
        ("pipe", "other", None),
        ("\ufffd.txt", "file", "%FF.txt"),
    ]
    inner = Listing.decode((await rig.file("GET", "/workspace/deep/er/")).body).entries[0]
    assert (inner.name, inner.size, inner.mode) == ("b", 5, 0o644)
    assert [
        e.name for e in Listing.decode((await rig.file("GET", "/workspace/")).body).entries
    ] == ["deep"]


async def test_names_that_are_not_text(rig: Rig) -> None:
    """A name is bytes; one that is no UTF-8 is reached as well."""
    path = "/workspace/" + os.fsdecode(b"\xff\xfe n\xc3\xa4me")
    assert (await rig.file("PUT", path, b"x")).status == 204
    assert [os.fsencode(entry.name) for entry in rig.workspace.iterdir()] == [
        b"\xff\xfe n\xc3\xa4me"
    ]
    assert (await rig.file("GET", path)).body == b"x"


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/", "/workspace2/x", "/var", "/identity/token", "/workspac"],
)
async def test_what_is_outside_is_not_there(rig: Rig, path: str) -> None:
    """Only overlay directories can be reached."""
    for method in ("GET", "PUT", "DELETE"):
        assert code(await rig.file(method, path)) == (404, "outside")


@pytest.mark.parametrize(
    "path", ["", "workspace/x", "/workspace/../etc/passwd", "/workspace/a/..", "/workspace/\x00"]
)
async def test_bad_paths(rig: Rig, path: str) -> None:
    """A path that is relative, leads upwards or is no path is refused as such."""
    assert code(await rig.file("GET", path)) == (400, "bad-path")


async def test_links_are_not_followed(rig: Rig, tmp_path: Path) -> None:
    """A link planted by the tenant leads nowhere: not at the end of a path, not on the way."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (rig.workspace / "file").symlink_to(outside / "secret")
    (rig.workspace / "dir").symlink_to(outside)
    (rig.workspace / "loop").symlink_to("loop")
    assert code(await rig.file("GET", "/workspace/file")) == (409, "symlink")
    assert code(await rig.file("GET", "/workspace/loop")) == (409, "symlink")
    for method in ("GET", "PUT", "DELETE"):
        told = await rig.file(method, "/workspace/dir/secret", b"overwritten")
        assert code(told) == (409, "not-a-directory")
    assert code(await rig.file("PUT", "/workspace/file", b"overwritten")) == (409, "not-a-file")
    assert (await rig.file("DELETE", "/workspace/dir")).status == 204
    assert (outside / "secret").read_text() == "secret"


async def test_what_is_not_a_file_is_not_opened(rig: Rig) -> None:
    """FIFOs, sockets and devices neither hang the agent nor are read or replaced."""
    os.mkfifo(rig.workspace / "pipe")
    if os.geteuid() == 0:
        os.mknod(rig.workspace / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    for entry in rig.workspace.iterdir():
        for method in ("GET", "PUT"):
            told = await rig.file(method, f"/workspace/{entry.name}")
            assert code(told) == (409, "not-a-file")
        assert (await rig.file("DELETE", f"/workspace/{entry.name}")).status == 204


async def test_too_much_is_refused_before_and_while_it_comes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file above the limit is refused, announced or not, and leaves nothing behind."""
    monkeypatch.setattr("boilerhouse.node.agent.files.FILE_LIMIT", 1 << 20)
    assert FILE_LIMIT > 1 << 20
    (rig.workspace / "a").write_text("old")
    big = b"x" * ((1 << 20) + 1)
    assert code(await rig.file("PUT", "/workspace/a", big)) == (413, "too-large")
    assert code(await rig.file("PUT", "/workspace/a", Pieces(big[:-1], b"xx"))) == (
        413,
        "too-large",
    )
    assert [entry.name for entry in rig.workspace.iterdir()] == ["a"]
    assert (rig.workspace / "a").read_text() == "old"


async def test_directories_go_when_empty(rig: Rig) -> None:
    """A directory with something in it is not removed, an overlay directory never."""
    await rig.file("PUT", "/workspace/d/f", b"")
    assert code(await rig.file("DELETE", "/workspace/d")) == (409, "not-empty")
    assert code(await rig.file("DELETE", "/workspace")) == (409, "overlay-itself")
    assert code(await rig.file("PUT", "/workspace/d", b"")) == (409, "not-a-file")
    await rig.file("DELETE", "/workspace/d/f")
    assert (await rig.file("DELETE", "/workspace/d")).status == 204


async def test_an_existing_file_keeps_its_mode(rig: Rig) -> None:
    """Written again, a script stays executable; but nothing becomes or stays setuid."""
    script = rig.workspace / "run.sh"
    script.touch()
    script.chmod(0o4750)
    await rig.file("PUT", "/workspace/run.sh", b"#!/bin/sh\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


@root_only
async def test_whose_new_files_are(rig: Rig) -> None:
    """A new file belongs to its directory's owner; in root's directory, to the tenant's process."""
    (rig.workspace / "theirs").mkdir()
    os.chown(rig.workspace / "theirs", 4242, 4343)
    rig.tenants.found = [Process(7, 1234, 5678)]
    await rig.file("PUT", "/workspace/theirs/new/f", b"")
    await rig.file("PUT", "/workspace/f", b"")
    owners = {
        name: ((rig.workspace / name).stat().st_uid, (rig.workspace / name).stat().st_gid)
        for name in ("theirs/new", "theirs/new/f", "f")
    }
    assert owners == {
        "theirs/new": (4242, 4343),
        "theirs/new/f": (4242, 4343),
        "f": (1234, 5678),
    }


async def test_no_descriptor_is_left_open(rig: Rig) -> None:
    """Whatever is asked, answered or refused, nothing stays open."""
    (rig.workspace / "link").symlink_to("x")
    await rig.file("PUT", "/workspace/f", b"x")
    before = open_descriptors()
    for path in ("/workspace", "/workspace/f", "/workspace/link", "/workspace/no/where", "/x"):
        for method in ("GET", "PUT", "DELETE"):
            await rig.file(method, path, b"x")
    await rig.agent.stop()
    assert open_descriptors() <= before
