"""What is packed comes back as it was, entry by entry; and plain tar agrees about what it is."""

from __future__ import annotations

import gzip
import os
import random
import socket
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from boilerhouse.platform.archive.model import Owners
from tests.unit.platform.archive.archive_fixture import clear, described, look, pack, unpack

pytestmark = pytest.mark.processes

ODD_NAMES = [
    b"plain", b"with space", b"new\nline", b"back\\slash", b"quote'\"", b"-dash", b"\xff\xfe\x80",
    "größe-日本".encode(), b"%41", b"tab\t", b"n" * 255, b"...", b" ",
]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.mkdir()
    return path


def _put(path: Path, content: bytes = b"", mode: int = 0o644, moment: int = 0) -> None:
    path.write_bytes(content)
    path.chmod(mode)
    if moment:
        os.utime(path, ns=(moment, moment))


def _fill(root: Path) -> None:
    rng = random.Random(5)
    deep = root / "a/b/c"
    deep.mkdir(parents=True)
    (root / "empty").mkdir(mode=0o700)
    for number, size in enumerate([0, 1, 511, 512, 513, 70_000, 600_000]):
        _put(deep / f"f{number}", rng.randbytes(size), 0o600 + number)
    for number, name in enumerate(ODD_NAMES):
        _put(root / os.fsdecode(name), name, moment=1_700_000_000_123_456_789 + number)
    _put(root / "old", b"", moment=-1_500_000_000)
    _put(root / "future", b"", moment=9_000_000_000_000_000_001)
    _put(root / "far", b"", moment=14_000_000_000_000_000_002)
    (root / "link").symlink_to("a/b/c/f1")
    (root / "away").symlink_to("/nonexistent/file")
    (root / "up").symlink_to("../../outside")
    (root / "long").symlink_to("x" * 1000)
    (root / "bytes").symlink_to(os.fsdecode(b"\xff\xfe"))
    os.utime(root / "link", ns=(7, 77), follow_symlinks=False)
    os.link(deep / "f5", root / "again")
    os.link(deep / "f5", root / "a/again")
    os.link(root / "away", root / "away2", follow_symlinks=False)
    long = root
    for _ in range(12):
        long = long / ("d" * 120)
        long.mkdir()
    _put(long / "leaf", b"deep")
    _put(root / "closed", b"secret", 0o000)
    (root / "sealed").mkdir()
    _put(root / "sealed/in", b"in")
    (root / "sealed").chmod(0o000)
    (root / "shared").mkdir()
    (root / "shared").chmod(0o3775)
    os.mkfifo(root / "fifo", 0o640)
    (root / "fifo").chmod(0o622)
    with (root / "holes").open("wb") as file:
        file.write(b"start")
        file.seek(5 << 20)
        file.write(b"middle")
        file.truncate(9 << 20)
    with (root / "hole").open("wb") as file:
        file.truncate(3 << 20)
    _put(root / "tagged", b"t", 0o444)
    os.setxattr(root / "tagged", "user.a=b%c", b"\x00\xff=\n")
    os.setxattr(root / "a", "user.of-a-directory", b"")
    if os.geteuid() == 0:
        os.chown(root / "old", 33, 44)
        os.chown(root / "link", 3_000_000, 4_000_000, follow_symlinks=False)
        os.chown(root / "empty", 1234, 0)
    os.utime(root / "a", ns=(1, 1_600_000_000_000_000_001))
    root.chmod(0o1777)
    os.utime(root, ns=(1, 1_500_000_000_000_000_009))


def test_everything_comes_back(source: Path, target: Path) -> None:
    """Modes, times to the nanosecond, links, owners, holes, attributes and names are the same."""
    _fill(source)
    before = described(source)
    archive, packed = pack({"/workspace": source})
    restored = unpack(archive, {"/workspace": target})
    assert described(target) == before == described(source)
    assert packed.entries == restored.entries == len(before)
    assert packed.content == restored.content
    assert packed.sha256 == restored.sha256
    assert not packed.skipped and not restored.skipped
    for name in ("holes", "hole"):
        assert (target / name).stat().st_blocks <= (source / name).stat().st_blocks


def test_plain_tar_lists_and_unpacks_it(source: Path, target: Path) -> None:
    """`tar tzf` names exactly the entries, by the paths of the instance, and `tar xzf` agrees."""
    _fill(source)
    archive, _ = pack({"/var/lib/data": source})
    listed = subprocess.run(
        ["tar", "tz", "--quoting-style=escape"],
        input=archive,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert sorted(listed.stdout.splitlines()) == sorted(
        _escaped(os.path.normpath(b"var/lib/data/" + name))
        + (b"/" if facts[0] == stat.S_IFDIR else b"")
        for name, facts in described(source).items()
    )
    top = target / "var/lib/data"
    subprocess.run(["tar", "xz", "--xattrs", "-p", "-C", target], input=archive, check=True)
    assert described(top) == described(source)


def _escaped(name: bytes) -> bytes:
    """Write a name as GNU tar does, in a locale that has no more than ASCII."""
    plain = {b"\n"[0]: b"\\n", b"\t"[0]: b"\\t", b"\\"[0]: b"\\\\"}
    return b"".join(
        plain.get(byte, b"%c" % byte if 32 <= byte < 127 else b"\\%03o" % byte) for byte in name
    )


@pytest.mark.parametrize("form", ["gnu", "posix", "ustar", "oldgnu", "v7"])
def test_an_archive_made_by_plain_tar_is_taken(source: Path, target: Path, form: str) -> None:
    """What a person packed by hand, in any format of GNU tar, can be imported."""
    (source / "workspace/sub").mkdir(parents=True)
    top = source / "workspace"
    _put(top / "sub/file", b"x" * 1000, 0o640, 1_700_000_000_000_000_000)
    if form in ("gnu", "posix", "oldgnu"):
        _put(top / ("n" * 180), b"long", moment=1_700_000_000_000_000_000)
        (top / "l").symlink_to("t" * 180)
        with (top / "holes").open("wb") as file:
            for part in range(40):
                file.seek(part << 20)
                file.write(b"part")
            file.truncate(50 << 20)
    os.link(top / "sub/file", top / "again")
    for path in (top / "holes", top / "sub", top):
        if path.exists():
            os.utime(path, ns=(0, 1_600_000_000_000_000_000))
    if (top / "l").is_symlink():
        os.utime(top / "l", ns=(0, 10**18), follow_symlinks=False)
    holes = [] if form in ("ustar", "v7") else ["-S"]
    command = ["tar", "czf", "-", f"--format={form}", *holes, "-C", str(source), "./workspace"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    unpack(archive, {"/workspace": target})
    assert described(target) == described(top)


def test_sparse_forms_of_pax(source: Path, target: Path) -> None:
    """GNU tar's sparse forms 0.1 and 1.0 are read."""
    (source / "w").mkdir()
    with (source / "w/holes").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    for version in ("0.1", "1.0"):
        archive = subprocess.run(
            ["tar", "czf", "-", "--format=posix", "-S", f"--sparse-version={version}",
             "-C", source, "w"], capture_output=True, check=True,
        ).stdout  # fmt: skip
        clear({"/w": target})
        unpack(archive, {"/w": target})
        assert described(target) == described(source / "w")


def test_several_overlays_share_an_archive(source: Path, target: Path) -> None:
    """Each overlay's content goes back to it; what has no overlay any more is named and left."""
    for name in ("one", "two", "gone"):
        (source / name).mkdir()
        _put(source / name / "file", name.encode())
        (target / name).mkdir()
    overlays = {"/workspace": source / "one", "/var/data": source / "two", "/gone": source / "gone"}
    archive, packed = pack(overlays)
    restored = unpack(archive, {"/workspace": target / "one", "/var/data": target / "two"})
    assert described(target / "one") == described(source / "one")
    assert described(target / "two") == described(source / "two")
    assert restored.skipped == ("'gone': in no overlay directory",)
    assert restored.entries == packed.entries


@pytest.mark.parametrize("padding", [0, 1, 200_000])
def test_several_gzip_members_are_one_archive(target: Path, padding: int) -> None:
    """Parallel compressors write several gzip streams one behind the other; devices add zeros."""
    tar = subprocess.run(
        ["tar", "c", "-C", Path(__file__).parent, "--transform=s,^,w/,", Path(__file__).name],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    pieces = b"".join(gzip.compress(tar[at : at + 1000]) for at in range(0, len(tar), 1000))
    unpack(pieces + bytes(padding), {"/w": target})
    assert (target / Path(__file__).name).read_bytes() == Path(__file__).read_bytes()


def test_ids_are_those_inside(source: Path, target: Path) -> None:
    """With one id outside, the archive holds the inside's, and a restore gives the outside's."""
    if os.geteuid():
        pytest.skip("only root can give files to others")
    target.parent.chmod(0o711)
    _put(source / "file", b"x", 0o400)
    (source / "directory").mkdir()
    (source / "link").symlink_to("file")
    for path in (source, *source.iterdir()):
        os.chown(path, 1_900_000_001, 1_900_000_001, follow_symlinks=False)
    archive, _ = pack({"/w": source}, Owners((1_900_000_001, 1_900_000_001), (1000, 1000)))
    listed = subprocess.run(
        ["tar", "tvz", "--numeric-owner"], input=archive, capture_output=True, check=True
    ).stdout
    assert listed.count(b"1000/1000") == 4
    unpack(archive, {"/w": target}, owners=Owners((1_900_000_002, 1_900_000_003)))
    for path in (target, *target.iterdir()):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (1_900_000_002, 1_900_000_003)
    assert (target / "file").read_bytes() == b"x"


def test_closed_directories_come_back_closed(source: Path, target: Path) -> None:
    """A tenant that locks itself out of its directories is brought back all the same."""
    if os.geteuid():
        pytest.skip("only root restores for others")
    target.parent.chmod(0o711)
    owner = (1_900_000_001, 1_900_000_001)
    (source / "sealed/within").mkdir(parents=True)
    (source / "listed").mkdir()
    _put(source / "sealed/within/file", b"x", 0o000)
    _put(source / "listed/file", b"y")
    for path in (source, *source.rglob("*")):
        os.chown(path, *owner)
    for name, mode in (("sealed/within", 0o000), ("sealed", 0o000), ("listed", 0o400), ("", 0o000)):
        (source / name).chmod(mode)
    archive, packed = pack({"/w": source}, Owners(owner, owner))
    restored = unpack(archive, {"/w": target}, owners=Owners(owner, owner))
    assert described(target) == described(source)
    assert restored.entries == packed.entries
    assert restored.fingerprint == look({"/w": target})


def test_closed_directories_need_no_user_namespaces() -> None:
    """They come back also where nobody but root can make a user namespace."""
    if os.geteuid():
        pytest.skip("only root restores for others")
    test = f"{__file__}::{test_closed_directories_come_back_closed.__name__}"
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"'
    pytest_again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    holding = ["unshare", "--user", "sh", "-c", "echo there; read end"]
    with subprocess.Popen(holding, stdin=PIPE, stdout=PIPE, text=True) as namespace:
        assert namespace.stdout is not None
        if namespace.stdout.readline() != "there\n":
            pytest.skip("no user namespace to try it in")
        for ids in ("uid_map", "gid_map"):
            Path(f"/proc/{namespace.pid}/{ids}").write_text("0 0 2000000000")
        within = ["nsenter", "--user", f"--target={namespace.pid}", "sh", "-c", script]
        ran = subprocess.run(
            [*within, *pytest_again], capture_output=True, text=True, timeout=60, check=False
        )
        namespace.communicate("end\n")
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_sockets_are_named_not_kept(source: Path, target: Path) -> None:
    """A socket means nothing without who listens: it is left out, and the result says so."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(source / "s"))
        archive, packed = pack({"/w": source})
    assert packed.skipped == ("'w/s': a socket, which cannot be kept",)
    restored = unpack(archive, {"/w": target})
    assert restored.entries == 1
    assert not list(target.iterdir())


def test_the_fingerprint_tells_every_change(source: Path) -> None:
    """It is the same while nothing changes, and another after any change, however well hidden."""
    _fill(source)
    overlays = {"/w": source}
    first = look(overlays)
    assert first == look(overlays)
    assert first.entries == len(described(source))
    seen = {first.digest}
    about = (source / "plain").stat()

    def same_size_same_time() -> None:
        (source / "plain").write_bytes(b"PLAIN")
        os.utime(source / "plain", ns=(about.st_atime_ns, about.st_mtime_ns))

    for change in (
        same_size_same_time,
        lambda: (source / "plain").chmod(0o611),
        lambda: (source / "plain").rename(source / "renamed"),
        lambda: (source / "link").unlink(),
        lambda: (source / "empty/new").symlink_to("x"),
        lambda: os.setxattr(source / "tagged", "user.new", b""),
    ):
        change()
        seen.add((look(overlays)).digest)
    assert len(seen) == 7


def test_results_carry_the_fingerprint_of_afterwards(source: Path, target: Path) -> None:
    """A save that ends with the fingerprint it began with has seen one state of the tree."""
    _fill(source)
    before = look({"/w": source})
    archive, packed = pack({"/w": source})
    assert packed.fingerprint == before
    restored = unpack(archive, {"/w": target})
    assert restored.fingerprint == look({"/w": target})


def test_emptied_means_everything_but_the_directory(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """Whatever is below goes, whatever its mode; links are removed, not followed."""
    _fill(source)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (source / "to").symlink_to(kept)
    (source / "a/to").symlink_to(kept / "file")
    about = source.stat()
    clear({"/w": source, "/x": target})
    assert list(source.iterdir()) == []
    assert (kept / "file").read_text() == "mine"
    assert (source.stat().st_ino, source.stat().st_mode) == (about.st_ino, about.st_mode)


def test_one_tree_twice_gives_the_same_bytes(source: Path) -> None:
    """Nothing of the moment is in an archive: entries are sorted, headers have no time of day."""
    _fill(source)
    first, _ = pack({"/w": source})
    second, _ = pack({"/w": source})
    assert first == second
