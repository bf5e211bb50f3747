"""Trees that change while they are packed, or do not want to be read; workers that are cut off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from boilerhouse.platform.archive.failures import Failed
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.packer import Packer
from boilerhouse.platform.archive.unpacker import Unpacker
from tests.unit.platform.archive.archive_fixture import clear, described, look, pack, unpack

pytestmark = pytest.mark.processes


def test_files_that_change_and_vanish(tmp_path: Path) -> None:
    """The archive is whole all the same, and the fingerprint says that it is not to be trusted."""
    source, target, elsewhere = (tmp_path / name for name in ("source", "target", "elsewhere"))
    source.mkdir()
    target.mkdir()
    elsewhere.write_text("not ours to change")
    for number in range(300):
        (source / f"d{number % 10}").mkdir(exist_ok=True)
        (source / f"d{number % 10}" / str(number)).write_bytes(bytes(20_000))
    stop = threading.Event()
    rng = random.Random(1)

    def write(file: Path, content: bytes, flags: int) -> None:
        # Never through a link: this writes with a root's rights.
        with contextlib.suppress(OSError):
            opened = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
            os.write(opened, content)
            os.close(opened)

    def churn() -> None:
        while not stop.is_set():
            path = source / f"d{rng.randrange(10)}"
            file = path / str(rng.randrange(300))
            match rng.randrange(6):
                case 0:
                    file.unlink(missing_ok=True)
                case 1:
                    write(file, b"", os.O_TRUNC)
                case 2:
                    write(file, bytes(rng.randrange(200_000)), os.O_CREAT)
                case 3:
                    path.rename(source / "moved")
                    (source / "moved").rename(path)
                case 4:
                    file.unlink(missing_ok=True)
                    file.symlink_to(elsewhere)
                case 5 if not os.path.lexists(file):
                    os.mkfifo(file)
            stop.wait(0.0005)

    before = look({"/w": source})
    churning = threading.Thread(target=churn)
    churning.start()
    try:
        for _ in range(3):
            archive, packed = pack({"/w": source})
            assert packed.fingerprint != before
            clear({"/w": target})
            restored = unpack(archive, {"/w": target})
            assert restored.entries == packed.entries
    finally:
        stop.set()
        churning.join()
    assert elsewhere.read_text() == "not ours to change"


def test_a_file_that_shrinks_is_padded(tmp_path: Path) -> None:
    """The header has promised a length: what is missing is zeros, and the next entry is right."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    rng = random.Random(2)
    (source / "a").write_bytes(rng.randbytes(40 << 20))
    (source / "b").write_bytes(b"next")

    async def cut() -> bytes:
        packer = Packer({"/w": source}, owners=Owners())
        try:
            pieces = [await anext(packer)]
            await asyncio.to_thread(os.truncate, source / "a", 1000)
            pieces += [piece async for piece in packer]
        finally:
            await packer.close()
        return b"".join(pieces)

    unpack(asyncio.run(cut()), {"/w": target})
    assert (target / "a").stat().st_size == 40 << 20
    assert (target / "b").read_bytes() == b"next"


def as_user(script: str, *arguments: object, uid: int = 4321) -> str:
    """Run a script as an ordinary user; returns what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.ordinary", str(uid), sys.executable, "-c", script,
         *map(str, arguments)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


ROUND = """
import sys
from pathlib import Path
from boilerhouse.platform.archive.failures import ArchiveError
from boilerhouse.platform.archive.model import Owners
from tests.unit.platform.archive.archive_fixture import clear, pack, unpack
source, target = {"/w": Path(sys.argv[1])}, {"/w": Path(sys.argv[2])}
try:
    archive, _ = pack(source)
    unpack(archive, target)
    clear(source)
    print("done")
except ArchiveError as error:
    print(error.code, error.message)
"""


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A place where an ordinary user has a source, with files of every mode, and a target."""
    if os.geteuid():
        pytest.skip("only root can be several users")
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    source = tmp_path / "source"
    (source / "closed").write_text("mode 000")
    (source / "sealed/deep").mkdir(parents=True)
    (source / "sealed/deep/in").write_text("in")
    (source / "read-only").mkdir()
    (source / "read-only/in").write_text("in")
    for path in [*source.rglob("*"), source, tmp_path / "target"]:
        os.chown(path, 4321, 4321)
    for name, mode in (("closed", 0), ("sealed/deep", 0), ("sealed", 0), ("read-only", 0o555)):
        (source / name).chmod(mode)
    return tmp_path


def test_a_user_saves_and_restores_all_of_its_own(stranger: Path) -> None:
    """Modes keep an ordinary user's agent from nothing that is its own, also when it empties."""
    before = described(stranger / "source")
    assert as_user(ROUND, stranger / "source", stranger / "target") == "done\n"
    assert described(stranger / "target") == before
    assert list((stranger / "source").iterdir()) == []


def test_what_cannot_be_read_is_named(stranger: Path) -> None:
    """A file of somebody else that may not be read ends the save with its name."""
    (stranger / "source/foreign").write_text("root's")
    (stranger / "source/foreign").chmod(0o600)
    said = as_user(ROUND, stranger / "source", stranger / "target")
    assert said == "unreadable 'w/foreign' cannot be read: Permission denied\n"


def test_the_agent_of_a_pod_reads_everything(stranger: Path) -> None:
    """Root with the few capabilities that an agent has saves every mode and every owner."""
    before = described(stranger / "source")
    wanted = "+chown,+dac_override,+fowner,+fsetid,+kill"
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-all,{wanted}", sys.executable, "-c", ROUND,
         stranger / "source", stranger / "target"], capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
    assert described(stranger / "target") == before


def test_what_does_not_fit_is_a_failure_of_the_disk(tmp_path: Path) -> None:
    """A full disk is nobody's bad archive: another try may succeed."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "big").write_bytes(random.Random(1).randbytes(8 << 20))
    archive, _ = pack({"/w": source})
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", target]).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(Failed, match="disk-full: 'w/big'"):
            unpack(archive, {"/w": target})
    finally:
        subprocess.run(["umount", target], check=True)


def test_an_overlay_that_is_not_there(tmp_path: Path) -> None:
    """A missing directory is said, not made."""
    with pytest.raises(Failed, match="no-overlay"):
        pack({"/w": tmp_path / "none"})
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Failed, match="no-overlay"):
        look({"/w": tmp_path / "link"})


async def test_a_packer_that_is_closed_early(tmp_path: Path) -> None:
    """Nobody has to read to the end: the worker goes."""
    (tmp_path / "big").write_bytes(bytes(30 << 20))
    others = _children()
    packer = Packer({"/w": tmp_path}, owners=Owners())
    assert await anext(packer)
    await packer.close()
    await packer.close()
    assert _children() <= others


async def test_an_unpacker_that_is_aborted(tmp_path: Path) -> None:
    """The worker goes at once, also when it waits for more."""
    others = _children()
    unpacker = Unpacker({"/w": tmp_path}, limits=Limits(), owners=Owners())
    await unpacker.feed(b"\x1f\x8b")
    assert _children() - others
    await unpacker.abort()
    assert _children() <= others


def _children() -> set[str]:
    """Return the processes that this one has started and that still run."""
    task = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return set(task.read_text().split())


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    """A worker does not outlive the process it works for, whatever that dies of."""
    script = f"""
import asyncio, os
from pathlib import Path
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.unpacker import Unpacker
async def main():
    unpacker = Unpacker({{"/w": Path({str(tmp_path)!r})}}, limits=Limits(), owners=Owners())
    await unpacker.feed(b"\\x1f\\x8b")
    print(Path(f"/proc/self/task/{{os.getpid()}}/children").read_text(), flush=True)
    os.dup2(unpacker._child.stdin.transport.get_extra_info("pipe").fileno(), 99)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    worker = Path("/proc") / done.stdout.strip()
    assert done.stdout.strip().isdecimal(), done.stderr
    for _ in range(500):
        if (
            not worker.exists()
            or "Z" in (worker / "stat").read_text().rpartition(")")[2].split()[0]
        ):
            return
        os.sched_yield()
        threading.Event().wait(0.01)
    raise AssertionError("the worker still runs")
