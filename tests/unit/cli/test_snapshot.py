"""`boilerhouse snapshot` and `idle` against a real house with a real store."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from boilerhouse.cli.snapshot import size_of
from boilerhouse.node.helper import snapshot_routes
from tests.unit.cli.test_remote import Shell, program
from tests.unit.edge.api.conftest import KEY, archive, opened_helper, opened_rest

pytestmark = pytest.mark.slow

CONTENT = archive(notes="hello")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with (
        opened_helper(tmp_path / "snapshots") as helper,
        opened_rest(tmp_path / "data", KEY, helper) as rest,
        rest.served() as address,
    ):
        shell = Shell(rest, address, tmp_path)
        await rest.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
        yield shell


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "saved.tar.gz"
    file.write_bytes(CONTENT)
    return file


async def test_a_file_is_put_listed_and_fetched(shell: Shell, saved: Path) -> None:
    """What comes back is what was put, under the name that was asked for."""
    put = await shell.run("snapshot", "put", "alice", "web", str(saved))
    assert put.exit_code == 0, put.output
    assert put.stdout.startswith("alice's web is version ")
    listed = await shell.run("snapshot", "ls")
    title, row = listed.stdout.splitlines()
    assert title.split()[:4] == ["TENANT", "WORKLOAD", "VERSION", "CURRENT"]
    assert row.split()[:2] == ["alice", "web"]
    out = shell.tmp / "out.tar.gz"
    got = await shell.run("snapshot", "get", "alice", "web", "-f", str(out))
    assert got.exit_code == 0, got.output
    assert out.read_bytes() == CONTENT
    assert [path.name for path in shell.tmp.glob(".out*")] == []


async def test_two_workloads_cannot_be_meant(shell: Shell, saved: Path) -> None:
    """A contradiction is an error of usage; the same name twice is none."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    twice = await shell.run("snapshot", "ls", "alice", "web", "-w", "web")
    assert (twice.exit_code, len(twice.stdout.splitlines())) == (0, 2)
    refused = await shell.run("snapshot", "ls", "alice", "web", "-w", "other")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "web was named already" in refused.stderr


async def test_what_is_there_is_not_overwritten(shell: Shell, saved: Path) -> None:
    """Without --force an existing file stays as it was, and the exit code says so."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    out = shell.tmp / "out.tar.gz"
    out.write_text("precious")
    refused = await shell.run("snapshot", "get", "alice", "web", "-f", str(out))
    assert (refused.exit_code, out.read_text()) == (1, "precious")
    assert "--force" in refused.stderr
    forced = await shell.run("snapshot", "get", "alice", "web", "-f", str(out), "--force")
    assert forced.exit_code == 0
    assert out.read_bytes() == CONTENT


@pytest.mark.parametrize("options", [(), ("--force",)])
async def test_a_fifo_is_written_into(shell: Shell, saved: Path, options: tuple[str, ...]) -> None:
    """Its reader gets the bytes, and it is a FIFO afterwards; nothing lies beside it."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    fifo, link = shell.tmp / "fifo", shell.tmp / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    before = sorted(shell.tmp.iterdir())
    for out in (fifo, link):
        reading = asyncio.create_task(asyncio.to_thread(fifo.read_bytes))
        got = await shell.run("snapshot", "get", "alice", "web", "-f", str(out), *options)
        assert (got.exit_code, got.output) == (0, "")
        assert await reading == CONTENT
    assert (fifo.is_fifo(), link.is_symlink()) == (True, True)
    assert sorted(shell.tmp.iterdir()) == before


@pytest.mark.processes
async def test_a_fifo_whose_reader_has_had_enough(shell: Shell) -> None:
    """The exit code of a SIGPIPE, as for a pipe."""
    noise = shell.tmp / "noise.tar.gz"
    noise.write_bytes(archive(noise=os.urandom(2 << 20).hex()))
    await shell.run("snapshot", "put", "alice", "web", str(noise))
    fifo = shell.tmp / "fifo"
    os.mkfifo(fifo)
    process = await program(shell, "snapshot", "get", "alice", "web", "-f", str(fifo))
    reader = await asyncio.to_thread(os.open, fifo, os.O_RDONLY)
    assert await asyncio.to_thread(os.read, reader, 2) == b"\x1f\x8b"
    os.close(reader)
    assert await asyncio.wait_for(process.wait(), 60) == 141
    assert fifo.is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize(("minor", "code", "told"), [(3, 0, ""), (7, 1, "No space left on device")])
async def test_a_device_is_written_into(
    shell: Shell, saved: Path, minor: int, code: int, told: str
) -> None:
    """One that swallows everything and one that is full stay devices, forced or not."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    device = shell.tmp / "device"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        os.close(os.open(device, os.O_WRONLY))
    except PermissionError:
        pytest.skip("devices are forbidden here")
    for options in ((), ("--force",)):
        got = await shell.run("snapshot", "get", "alice", "web", "-f", str(device), *options)
        assert (got.exit_code, told in got.stderr) == (code, True)
        assert stat.S_ISCHR(device.stat().st_mode)


async def test_a_link_is_followed(shell: Shell, saved: Path) -> None:
    """With --force what it leads to is replaced, or made, where it is; the link stays."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    place = shell.tmp / "place"
    place.mkdir()
    link, real = shell.tmp / "link", place / "real.tar.gz"
    link.symlink_to("place/real.tar.gz")
    words = ("snapshot", "get", "alice", "web", "-f", str(link))
    nowhere = await shell.run(*words)
    assert (nowhere.exit_code, "leads nowhere" in nowhere.stderr) == (1, True)
    assert not real.exists()
    assert (await shell.run(*words, "--force")).exit_code == 0
    assert (link.is_symlink(), real.read_bytes()) == (True, CONTENT)
    real.write_text("precious")
    assert (await shell.run(*words)).exit_code == 1
    assert real.read_text() == "precious"
    assert (await shell.run(*words, "--force")).exit_code == 0
    assert (link.is_symlink(), real.read_bytes()) == (True, CONTENT)
    assert list(place.iterdir()) == [real]


async def test_what_cannot_become_a_file_is_refused(shell: Shell, saved: Path) -> None:
    """A directory of the file's name, and a link to itself: one line each, and both stay."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    inner = shell.tmp / "alice-web.tar.gz"
    inner.mkdir()
    knot = shell.tmp / "knot"
    knot.symlink_to("knot")
    for out, why in ((shell.tmp, "is a directory"), (knot, "cannot be written")):
        refused = await shell.run("snapshot", "get", "alice", "web", "-f", str(out), "--force")
        assert (refused.exit_code, why in refused.stderr) == (1, True)
        assert len(refused.stderr.splitlines()) == 1
    assert (inner.is_dir(), list(inner.iterdir()), knot.is_symlink()) == (True, [], True)


async def test_a_fetch_that_fails_leaves_nothing(shell: Shell, saved: Path) -> None:
    """No such version: no file, neither under its name nor under another."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    before = sorted(shell.tmp.iterdir())
    out = shell.tmp / "out.tar.gz"
    failed = await shell.run("snapshot", "get", "alice", "web", "--version", "99", "-f", str(out))
    assert failed.exit_code == 1
    assert sorted(shell.tmp.iterdir()) == before


@pytest.mark.processes
async def test_pipes(shell: Shell, saved: Path) -> None:
    """`put -` reads stdin and `get -f -` writes stdout, bytes as they are, and nothing besides."""
    with saved.open("rb") as source:
        process = await program(
            shell, "snapshot", "put", "alice", "web", "-", stdin=source.fileno()
        )
        assert await asyncio.wait_for(process.wait(), 60) == 0
    process = await program(
        shell, "snapshot", "get", "alice", "web", "-f", "-", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert out == CONTENT


def damage(shell: Shell, size: int) -> None:
    """Store a version of at least this size, and change its last byte on the volume."""
    [file] = (shell.tmp / "snapshots/.v/alice/web").glob("1-*.tar.gz")
    content = bytearray(file.read_bytes())
    assert len(content) >= size
    content[-1] ^= 1
    file.write_bytes(content)


async def test_a_damaged_version_is_told(shell: Shell, saved: Path) -> None:
    """One line that names the version, and no file."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    damage(shell, 1)
    out = shell.tmp / "out.tar.gz"
    failed = await shell.run("snapshot", "get", "alice", "web", "-f", str(out))
    assert failed.exit_code == 1
    assert "version 1 (" in failed.stderr and "is damaged on the volume" in failed.stderr
    assert not out.exists()


async def test_damage_that_shows_midway_is_suspected(shell: Shell) -> None:
    """The connection is cut: the line says what that may mean, and how to get another version."""
    noise = shell.tmp / "noise.tar.gz"
    noise.write_bytes(archive(noise=os.urandom(12 << 20).hex()))  # half of it when packed
    assert noise.stat().st_size > 12 << 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_routes, "READ_FIRST", 1 << 20)
        await shell.run("snapshot", "put", "alice", "web", str(noise))
        damage(shell, 12 << 20)
        out = shell.tmp / "out.tar.gz"
        failed = await shell.run("snapshot", "get", "alice", "web", "-f", str(out))
    assert failed.exit_code == 1
    assert "may be damaged" in failed.stderr
    assert "snapshot ls alice web" in failed.stderr and "--version N" in failed.stderr
    assert not out.exists()


@pytest.mark.processes
async def test_a_full_device(shell: Shell, saved: Path) -> None:
    """What cannot be written is said in one line, whichever command writes."""
    await shell.run("snapshot", "put", "alice", "web", str(saved))
    for words in (("get", "alice", "web", "-f", "-"), ("ls",)):
        full = os.open("/dev/full", os.O_WRONLY)
        try:
            process = await program(
                shell, "snapshot", *words, stdout=full, stderr=asyncio.subprocess.PIPE
            )
        finally:
            os.close(full)
        _, told = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 1
        assert told.decode().splitlines() == [
            "boilerhouse: cannot write output: No space left on device"
        ]


@pytest.mark.processes
async def test_a_reader_that_has_had_enough(shell: Shell) -> None:
    """A pipe that breaks is the exit code of a SIGPIPE, and no word."""
    noise = shell.tmp / "noise.tar.gz"
    noise.write_bytes(archive(noise=os.urandom(2 << 20).hex()))
    await shell.run("snapshot", "put", "alice", "web", str(noise))
    process = await program(
        shell,
        *("snapshot", "get", "alice", "web", "-f", "-"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert await process.stdout.readexactly(2) == b"\x1f\x8b"
    transport = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]  # no other way
    transport.close()
    assert await asyncio.wait_for(process.stderr.read(), 60) == b""
    assert await asyncio.wait_for(process.wait(), 60) == 141


@pytest.mark.processes
async def test_a_bar_is_for_terminals(shell: Shell, saved: Path) -> None:
    """On a terminal there is one, without colours if NO_COLOR says so; elsewhere nothing."""
    quiet = await shell.run("snapshot", "put", "alice", "web", str(saved), "-o", "json")
    assert quiet.stderr == ""
    assert json.loads(quiet.stdout)["tenantId"] == "alice"
    master, slave = pty.openpty()
    out = shell.tmp / "out.tar.gz"
    try:
        process = await program(
            shell, "snapshot", "get", "alice", "web", "-f", str(out), stderr=slave
        )
        assert await asyncio.wait_for(process.wait(), 60) == 0
        shown = await asyncio.to_thread(os.read, master, 65536)
    finally:
        os.close(master)
        os.close(slave)
    assert b"alice/web" in shown


async def test_versions_are_restored_and_removed(shell: Shell) -> None:
    """Going back makes a new version; removing asks for --yes where nobody can be asked."""
    for text in ("one", "two"):
        file = shell.tmp / text
        file.write_bytes(archive(notes=text))
        await shell.run("snapshot", "put", "alice", "web", str(file))
    listed = json.loads((await shell.run("snapshot", "ls", "alice", "web", "-o", "json")).stdout)
    oldest = listed[-1]
    back = await shell.run("snapshot", "restore", "alice", "web", str(oldest["version"]))
    assert back.exit_code == 0, back.output
    assert back.stdout.startswith("alice's web is version 3 now (")
    for words in (
        ("restore", "alice", "web", "3"),
        ("put", "alice", "web", str(shell.tmp / "one")),
    ):
        again = await shell.run("snapshot", *words)
        assert again.stdout.startswith("alice's web is version 3 already: nothing was stored (")
    current = json.loads((await shell.run("snapshot", "ls", "alice", "-o", "json")).stdout)
    assert [one["digest"] for one in current] == [oldest["digest"]]
    asked = await shell.run("snapshot", "rm", "alice", "web")
    assert (asked.exit_code, "--yes" in asked.stderr) == (2, True)
    removed = await shell.run("snapshot", "rm", "alice", "web", "--yes")
    assert removed.exit_code == 0
    empty = await shell.run("snapshot", "ls", "-w", "web")
    assert (empty.exit_code, empty.stdout) == (0, "")


async def test_what_is_in_use_is_refused_with_what_to_do(shell: Shell, saved: Path) -> None:
    """Exit code 1 and one line."""
    await shell.run("claim", "alice", "web")
    refused = await shell.run("snapshot", "put", "alice", "web", str(saved))
    assert refused.exit_code == 1
    assert "release it first" in refused.stderr
    missing = await shell.run("snapshot", "put", "alice", "web", str(shell.tmp / "nothing"))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


async def test_idle_is_explained(shell: Shell) -> None:
    """Why, what then, and each signal; or the whole answer as JSON."""
    await shell.run("claim", "alice", "web")
    told = await shell.run("idle", "alice", "web")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("never: the workload has no idle timeout\nthen: nothing")
    assert "SIGNAL" in told.stdout
    body = json.loads((await shell.run("idle", "alice", "web", "-o", "json")).stdout)
    assert body["state"] == "never"
    nobody = await shell.run("idle", "bob", "web")
    assert nobody.exit_code == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (200 << 20, "200 MiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes_for_people(count: int, text: str) -> None:
    """One unit, and no more digits than matter."""
    assert size_of(count) == text
