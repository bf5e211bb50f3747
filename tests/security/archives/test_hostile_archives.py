"""Archives written to harm: nothing outside the overlay is touched, and the reason is clear."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from boilerhouse.platform.archive.failures import BadArchive, Failed
from boilerhouse.platform.archive.header import DEVICE
from boilerhouse.platform.archive.model import Limits, Owners
from boilerhouse.platform.archive.reader import Reader
from boilerhouse.platform.archive.source import Source
from tests.security.archives.hostile import (
    END,
    archive,
    device,
    directory,
    entry,
    fifo,
    file,
    hard_link,
    stream,
    symlink,
)
from tests.unit.platform.archive.archive_fixture import clear, described, unpack

WORDS = 250  # the name of a directory, long enough that a few make the longest path


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A place that must stay as it is: file, directory and their modes."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text("secret")
    (path / "secret").chmod(0o600)
    (path / "sub").mkdir(mode=0o700)
    before = described(path)
    yield path
    assert described(path) == before


@pytest.fixture
def overlay(tmp_path: Path, outside: Path) -> Iterator[Path]:
    path = tmp_path / "overlay"
    path.mkdir()
    yield path
    assert sorted(child.name for child in tmp_path.iterdir()) == ["outside", "overlay"]


def refused(data: bytes, overlay: Path, code: str, limits: Limits | None = None) -> str:
    with pytest.raises(BadArchive) as caught:
        unpack(data, {"/workspace": overlay}, limits or Limits())
    assert caught.value.code == code
    return caught.value.message


def test_absolute_names(overlay: Path, outside: Path) -> None:
    """A name from the root of the machine is refused, however it is spelled."""
    target = os.fsencode(outside / "secret")
    refused(archive(file(target)), overlay, "absolute-name")
    refused(archive(file(b"//workspace/x")), overlay, "absolute-name")
    refused(archive(entry(b"workspace/x", records={b"path": target})), overlay, "absolute-name")


@pytest.mark.parametrize(
    "name",
    [b"../outside/secret", b"workspace/../../outside/secret", b"workspace/a/..", b"workspace/.."],
)
def test_parent_names(overlay: Path, name: bytes) -> None:
    """A name with .. in it is refused, wherever it would lead."""
    refused(archive(directory(b"workspace/"), file(name)), overlay, "parent-name")


@pytest.mark.parametrize("absolute", [True, False])
def test_writing_through_a_symlink(overlay: Path, outside: Path, absolute: bool) -> None:
    """A link is made as it is told, but nothing is ever written, linked or entered through it."""
    to = os.fsencode(outside) if absolute else b"../outside"
    for evil in (
        file(b"workspace/l/secret"),
        file(b"workspace/l/new"),
        directory(b"workspace/l/sub/", 0o777),
        symlink(b"workspace/l/new", b"x"),
        hard_link(b"workspace/got", b"workspace/l/secret"),
        fifo(b"workspace/l/new"),
    ):
        refused(archive(symlink(b"workspace/l", to), evil), overlay, "through-link")
        clear({"/workspace": overlay})


def test_replacing_a_symlink_to_a_file(overlay: Path, outside: Path) -> None:
    """A file of the same name takes the link's place; what the link points to stays."""
    link = symlink(b"workspace/l", os.fsencode(outside / "secret"))
    unpack(archive(link, file(b"workspace/l", b"new")), {"/workspace": overlay})
    assert not (overlay / "l").is_symlink()
    assert (overlay / "l").read_text() == "new"


def test_a_directory_replaces_a_symlink(overlay: Path, outside: Path) -> None:
    """A directory's mode goes to the new directory, not to where a link of that name led."""
    link = symlink(b"workspace/l", os.fsencode(outside / "sub"))
    data = archive(link, directory(b"workspace/l/", 0o777), file(b"workspace/l/in"))
    unpack(data, {"/workspace": overlay})
    assert (overlay / "l").is_dir() and not (overlay / "l").is_symlink()
    assert stat.S_IMODE((overlay / "l").stat().st_mode) == 0o777


def test_a_symlink_in_place_of_the_overlay(overlay: Path, outside: Path) -> None:
    """The overlay directory itself cannot become something else."""
    for evil in (
        symlink(b"workspace", os.fsencode(outside)),
        file(b"workspace"),
        fifo(b"workspace"),
    ):
        refused(archive(evil, file(b"workspace/secret")), overlay, "bad-name")


def test_hard_links_outside(overlay: Path, outside: Path) -> None:
    """A hard link names a file of its own overlay, by a harmless name, or is refused."""
    secret = os.fsencode(outside / "secret")
    refused(archive(hard_link(b"workspace/h", secret)), overlay, "absolute-name")
    refused(archive(hard_link(b"workspace/h", b"../outside/secret")), overlay, "parent-name")
    refused(archive(hard_link(b"workspace/h", b"outside/secret")), overlay, "link-outside")
    refused(archive(hard_link(b"workspace/h", b"workspace/none")), overlay, "bad-link")
    refused(archive(hard_link(b"workspace/h", b"workspace/h")), overlay, "bad-link")
    refused(archive(hard_link(b"workspace/h", b"workspace")), overlay, "bad-link")
    refused(
        archive(directory(b"workspace/d/"), hard_link(b"workspace/h", b"workspace/d")),
        overlay,
        "bad-link",
    )


def test_a_hard_link_to_a_symlink_is_one(overlay: Path, outside: Path) -> None:
    """The link itself gets a second name; writing to that name replaces it."""
    link = symlink(b"workspace/l", os.fsencode(outside / "secret"))
    data = archive(link, hard_link(b"workspace/h", b"workspace/l"), file(b"workspace/h", b"x"))
    unpack(data, {"/workspace": overlay})
    assert (overlay / "h").read_text() == "x"


@pytest.mark.parametrize("kind", [b"3", DEVICE])
def test_devices(overlay: Path, kind: bytes) -> None:
    """No instance gets a device, whoever restores it."""
    assert "'workspace/null'" in refused(
        archive(device(b"workspace/null", kind)), overlay, "device"
    )


@pytest.mark.parametrize("kind", [b"D", b"M", b"N", b"V", b"A", b"\xff", b"Z"])
def test_unknown_kinds(overlay: Path, kind: bytes) -> None:
    """What another program might take for something is not guessed at."""
    refused(archive(entry(b"workspace/x", kind)), overlay, "bad-header")


def test_fifos_are_kept(overlay: Path) -> None:
    """A FIFO comes back with its mode, and nobody waits for its other end."""
    unpack(archive(fifo(b"workspace/f", 0o4622)), {"/workspace": overlay})
    assert (overlay / "f").lstat().st_mode == stat.S_IFIFO | 0o622


def test_setuid_is_taken_off(overlay: Path) -> None:
    """Files lose setuid and setgid; directories keep setgid, where it lends nobody's rights."""
    data = archive(
        file(b"workspace/u", mode=0o6755),
        entry(b"workspace/x", mode=0o6711, records={b"SCHILY.xattr.user.a": b"b"}),
        directory(b"workspace/d/", 0o3775),
        file(b"workspace/d/g", mode=0o2750),
        hard_link(b"workspace/again", b"workspace/u"),
    )
    unpack(data, {"/workspace": overlay})
    names = ("u", "again", "x", "d", "d/g")
    modes = [oct(stat.S_IMODE((overlay / name).stat().st_mode)) for name in names]
    assert modes == ["0o755", "0o755", "0o711", "0o3775", "0o750"]


def test_capabilities_and_labels_are_not_restored(overlay: Path) -> None:
    """Only attributes that the tenant could set by itself are."""
    records = {
        b"SCHILY.xattr.security.capability": b"\x01\x00\x00\x02\x00\x20" + bytes(14),
        b"SCHILY.xattr.trusted.overlay.opaque": b"y",
        b"SCHILY.xattr.system.posix_acl_access": b"\x02\x00\x00\x00",
        b"SCHILY.xattr.user.mine": b"kept",
    }
    unpack(archive(entry(b"workspace/x", records=records)), {"/workspace": overlay})
    assert os.listxattr(overlay / "x") == ["user.mine"]


def test_the_chain_of_cve_2025_4517(overlay: Path, outside: Path) -> None:
    """Links whose resolution is longer than a path may be do not lead out.

    Each step is a directory with a long name and a short link to it, so that the path through the
    links is short and the resolved one is too long to be checked by resolving it.
    """
    long = b"d" * WORDS
    members, path = [directory(b"workspace/")], b"workspace"
    for step in b"abcdefghijklmnop":
        members.append(directory(path + b"/" + long + b"/"))
        members.append(symlink(path + b"/%c" % step, long))
        path += b"/%c" % step
    link = path + b"/" + b"l" * 254
    members.append(symlink(link, b"../" * 16))
    members.append(symlink(b"workspace/escape", link[10:] + b"/../../outside"))
    for evil in (
        hard_link(b"workspace/got", b"workspace/escape/secret"),
        file(b"workspace/escape/secret", b"overwritten"),
        directory(b"workspace/escape/sub/", 0o777),
    ):
        message = refused(archive(*members, evil), overlay, "through-link")
        assert "no directory" in message
        clear({"/workspace": overlay})


def zeros(size: int) -> Iterator[bytes]:
    return repeat(bytes(1 << 20), size >> 20)


def test_a_bomb_of_zeros(overlay: Path) -> None:
    """Ten gigabytes of zeros in a few megabytes end at the header that announces them."""
    bomb = stream(chain([entry(b"workspace/zeros", size=10 << 30)], zeros(10 << 30)))
    with pytest.raises(BadArchive) as caught:
        unpack(bomb, {"/workspace": overlay}, Limits(content=1 << 30))
    assert caught.value.code == "too-large"
    assert not list(overlay.iterdir())


def test_a_bomb_of_many_files(overlay: Path) -> None:
    """The limit is on all files together, not on each."""
    members = (file(b"workspace/%d" % n, bytes(1 << 20)) for n in range(10_000))
    with pytest.raises(BadArchive) as caught:
        unpack(stream(members), {"/workspace": overlay}, Limits(content=50 << 20))
    assert caught.value.code == "too-large"
    assert len(list(overlay.iterdir())) <= 50


def test_a_bomb_behind_the_end(overlay: Path) -> None:
    """Zeros behind the archive's end are not read for ever."""
    bomb = stream(chain([file(b"workspace/x"), END], zeros(10 << 30)))
    with pytest.raises(BadArchive) as caught:
        unpack(bomb, {"/workspace": overlay})
    assert caught.value.code == "trailing-data"


def test_a_bomb_in_an_overlay_that_is_gone(overlay: Path) -> None:
    """What is left out counts too: somebody has to read it."""
    bomb = stream(chain([entry(b"gone/zeros", size=10 << 30)], zeros(10 << 30)))
    with pytest.raises(BadArchive) as caught:
        unpack(bomb, {"/workspace": overlay}, Limits(content=1 << 30))
    assert caught.value.code == "too-large"


def test_headers_without_entries(overlay: Path) -> None:
    """Headers that only announce others are counted as well, and have to be small."""
    name = entry(b"L", b"L", b"n" * 100)
    refused(archive(*[name] * 20), overlay, "too-large")
    refused(archive(entry(b"x", b"x", b"", size=1 << 31)), overlay, "too-large")
    refused(archive(entry(b"x", b"L", b"", size=1 << 31)), overlay, "too-large")
    refused(archive(name), overlay, "bad-header")


def test_a_million_entries(overlay: Path) -> None:
    """They end at the limit; what was made until then is a directory's work to remove."""
    made = 0

    def members() -> Iterator[bytes]:
        nonlocal made
        for number in range(1_000_000):
            made = number
            yield hard_link(b"workspace/a/%d" % number, b"workspace/f")

    def all_of_it() -> Iterator[bytes]:
        yield file(b"workspace/f") + directory(b"workspace/a/")
        yield from members()

    with pytest.raises(BadArchive) as caught:
        unpack(stream(all_of_it()), {"/workspace": overlay}, Limits(entries=5_000))
    assert caught.value.code == "too-large"
    assert "5000 entries" in caught.value.message
    assert made < 999_999
    assert len(list((overlay / "a").iterdir())) == 4_998


def test_long_names(overlay: Path) -> None:
    """A component over 255 bytes, or too many of them, is refused, in every way to write it."""
    refused(archive(file(b"workspace/" + b"n" * 4096)), overlay, "name-too-long")
    refused(archive(file(b"workspace/" + b"n" * 256)), overlay, "name-too-long")
    refused(
        archive(file(b"workspace/a"), file(b"workspace/" + b"n" * 256)), overlay, "name-too-long"
    )
    deep = b"workspace/" + b"d/" * 26_000 + b"f"
    refused(archive(file(deep)), overlay, "too-deep")
    refused(
        archive(entry(b"././@LongLink", b"L", deep + b"\0"), file(b"workspace/x")),
        overlay,
        "too-deep",
    )
    refused(archive(hard_link(b"workspace/l", deep)), overlay, "too-deep")
    refused(archive(file(b"n" * 7_000_000)), overlay, "name-too-long")
    refused(archive(symlink(b"workspace/l", b"t" * 5000)), overlay, "bad-link")
    longer = b"workspace/" + b"/".join([b"d" * 200] * 25)
    unpack(archive(file(longer)), {"/workspace": overlay})


def test_long_names_count_as_content(overlay: Path) -> None:
    """So a few kilobytes of gzip are not hours of work."""
    name = b"workspace/" + b"d/" * 20_000
    members = (file(name + b"%d" % number) for number in range(1_000))
    with pytest.raises(BadArchive) as caught:
        unpack(stream(members), {"/workspace": overlay}, Limits(content=1 << 20))
    assert caught.value.code == "too-large"
    clear({"/workspace": overlay})


def test_names_that_are_not_text(overlay: Path) -> None:
    """Names are bytes: what is not UTF-8 is made as it is, and messages stay printable."""
    unpack(archive(file(b"workspace/\xff\xfe\n\x01")), {"/workspace": overlay})
    assert [os.fsencode(path.name) for path in overlay.iterdir()] == [b"\xff\xfe\n\x01"]
    clear({"/workspace": overlay})
    message = refused(archive(file(b"workspace/\xff\x1b[2J/..")), overlay, "parent-name")
    assert message.isprintable() and message.isascii()


def test_zero_bytes_in_names(overlay: Path) -> None:
    """A pax name may hold a zero byte, which no file name does: refused, not cut."""
    evil = entry(b"workspace/x", records={b"path": b"workspace/ok\0/../../x"})
    refused(archive(evil), overlay, "bad-name")


def test_names_that_mean_the_same(overlay: Path) -> None:
    """Empty and dot components are nothing."""
    unpack(archive(file(b"./workspace/.//a/./b", b"x")), {"/workspace": overlay})
    assert (overlay / "a/b").read_text() == "x"


def test_duplicate_entries(overlay: Path) -> None:
    """The last of a name stays, whatever the first was; hard links of the first are kept."""
    data = archive(
        file(b"workspace/f", b"first", 0o400),
        hard_link(b"workspace/kept", b"workspace/f"),
        file(b"workspace/f", b"last", 0o600),
        directory(b"workspace/was-dir/"),
        file(b"workspace/was-dir", b"file now"),
        fifo(b"workspace/was-fifo"),
        directory(b"workspace/was-fifo/"),
        symlink(b"workspace/f2", b"a"),
        symlink(b"workspace/f2", b"b"),
        directory(b"workspace/d/", 0o700),
        directory(b"workspace/d/", 0o711),
    )
    unpack(data, {"/workspace": overlay})
    assert (overlay / "f").read_text() == "last"
    assert (overlay / "kept").read_text() == "first"
    assert (overlay / "was-dir").read_text() == "file now"
    assert (overlay / "was-fifo").is_dir()
    assert str((overlay / "f2").readlink()) == "b"
    assert stat.S_IMODE((overlay / "d").stat().st_mode) == 0o711
    refused(archive(file(b"workspace/d/in"), file(b"workspace/d", b"file")), overlay, "twice")


def test_truncated(overlay: Path) -> None:
    """An archive cut anywhere is not a smaller archive."""
    rng = random.Random(3)
    data = archive(*(file(b"workspace/%d" % n, rng.randbytes(3000)) for n in range(20)))
    for length in [0, 1, 5, 10, 18, 100, 600, 5000, len(data) // 2, len(data) - 9, len(data) - 1]:
        code = "bad-gzip" if length < 2 else "truncated"
        refused(data[:length], overlay, code)
        clear({"/workspace": overlay})
    plain = b"".join([file(b"workspace/a"), file(b"workspace/b", b"x" * 600)])
    for length in (0, 512, 700, len(plain)):
        refused(b"".join(stream([plain[:length]])), overlay, "truncated")
        clear({"/workspace": overlay})


def test_flipped_bits(overlay: Path) -> None:
    """A changed bit is noticed: by gzip, by a header's checksum, or as another digest."""
    rng = random.Random(4)
    data = archive(*(file(b"workspace/%d" % n, rng.randbytes(500)) for n in range(10)))
    noticed = 0
    right = unpack(data, {"/workspace": overlay}).sha256
    for _ in range(25):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        clear({"/workspace": overlay})
        try:
            assert unpack(bytes(flipped), {"/workspace": overlay}).sha256 != right
        except BadArchive:
            noticed += 1
    assert noticed >= 20  # gzip's own header has bits that mean nothing


def test_noise(overlay: Path) -> None:
    """Whatever comes, the answer is one of ours."""
    rng = random.Random(6)
    refused(b"", overlay, "bad-gzip")
    refused(b"GIF89a", overlay, "bad-gzip")
    for size in (1, 511, 512, 513, 5000):
        noise = b"".join(stream([rng.randbytes(size)]))
        with pytest.raises(BadArchive):
            unpack(noise, {"/workspace": overlay})
    good = file(b"workspace/f", b"x" * 2000) + entry(
        b"workspace/" + b"p" * 120, records={b"SCHILY.xattr.user.a": b"b"}
    )
    for _ in range(20):
        bad = bytearray(good + END)
        for _ in range(3):
            bad[rng.randrange(2500)] = rng.randrange(256)
        clear({"/workspace": overlay})
        try:
            unpack(b"".join(stream([bytes(bad)])), {"/workspace": overlay})
        except (BadArchive, Failed) as error:
            assert error.code != "worker-died", error.message


@pytest.mark.parametrize(
    "text",
    [b"9 a=b\n", b"6 a=b", b"0 a=b\n", b"-6 a=b\n", b"99999999999 a=b\n", b"x", b"6 a b\n\n",
     b"13 size=-100\n", b"12 mtime=x.5\n", b"15 uid=4294967295\n",
     b"26 size=99999999999999999999\n"],
)  # fmt: skip
def test_bad_records(overlay: Path, text: bytes) -> None:
    """Pax records that do not add up, or numbers that are none."""
    data = archive(entry(b"x", b"x", text), file(b"workspace/x"))
    with pytest.raises(BadArchive):
        unpack(data, {"/workspace": overlay})


def test_values_that_no_kernel_takes(overlay: Path) -> None:
    """Times, ids, sizes and attributes beyond what is possible are the archive's fault."""
    far = bytearray(file(b"workspace/x"))
    far[136:148] = b"\x80" + b"\x7f" * 11
    refused(archive(_summed(far)), overlay, "bad-header")
    everybody = bytearray(file(b"workspace/x"))
    everybody[108:116] = b"\x80\0\0\0\xff\xff\xff\xff"
    refused(archive(_summed(everybody)), overlay, "bad-header")
    huge = bytearray(file(b"workspace/x"))
    huge[124:136] = b"\x80" + b"\x7f" * 11
    refused(archive(_summed(huge)), overlay, "too-large")
    for key, code in (
        (b"user." + b"n" * 300, "bad-attribute"),
        (b"user.", "bad-attribute"),
        (b"user.a\0b", "bad-name"),
    ):
        evil = entry(b"workspace/x", records={b"SCHILY.xattr." + key: b"v"})
        refused(archive(evil), overlay, code)


def test_the_latest_and_the_earliest_moment(overlay: Path) -> None:
    """A time that the header can say but the file system cannot is what comes nearest."""
    for moment in (b"-99999999999", b"999999999999999999.999999999", b"-0.000000001", b"5"):
        unpack(archive(entry(b"workspace/x", records={b"mtime": moment})), {"/workspace": overlay})
        assert (overlay / "x").exists()
        clear({"/workspace": overlay})


def _summed(member: bytearray) -> bytes:
    """Put a member's checksum right again."""
    member[148:156] = b" " * 8
    member[148:156] = b"%06o\0 " % sum(member[:512])
    return bytes(member)


def test_headers_at_random() -> None:
    """Whatever stands in headers whose checksums are right, the reader says what is wrong."""
    rng = random.Random(8)
    good = [
        bytearray(file(b"workspace/" + b"n" * 60)),
        bytearray(hard_link(b"workspace/h", b"workspace/n")),
        bytearray(entry(b"x", b"x", b"30 mtime=1700000000.123456789\n19 GNU.sparse.map=\n")),
        bytearray(entry(b"S", b"S")),
        bytearray(sparse(b"10", b"1\n0\n5\n", b"12345")),
    ]
    refusals = 0
    for _ in range(4000):
        members = [bytearray(rng.choice(good)) for _ in range(3)]
        for member in members:
            for _ in range(rng.randrange(4)):
                at = rng.choice([*range(100, 160), *range(256, 265), *range(380, 512), 0, 345])
                member[at] = rng.choice([0, 0x20, 0x2E, 0x2F, 0x30, 0x37, 0x80, 0xFF, 0x53])
            for block in range(512, len(member), 512):
                if rng.random() < 0.2:
                    member[block + rng.randrange(40)] = rng.randrange(256)
        plain = b"".join(_summed(member) for member in members) + END
        pieces = iter([plain])
        source = Source(lambda pieces=pieces: next(pieces, b""))  # type: ignore[misc]  # bound
        reader = Reader(source, 100, 1 << 20)
        try:
            while (found := reader.next()) is not None:
                member_read, parts, layout = found
                assert b".." not in parts and b"" not in parts and layout[2] <= member_read.size
                source.skip(layout[2] + -member_read.size % 512)
        except BadArchive:
            refusals += 1
    assert 1000 < refusals < 4000


def sparse(size: bytes, pairs: bytes, data: bytes = b"", form: bytes = b"1") -> bytes:
    text = pairs + bytes(-len(pairs) % 512)
    records = {
        b"GNU.sparse.major": form, b"GNU.sparse.minor": b"0",
        b"GNU.sparse.name": b"workspace/s", b"GNU.sparse.realsize": size,
    }  # fmt: skip
    return entry(b"workspace/GNUSparseFile.0/s", content=text + data, records=records)


@pytest.mark.parametrize(
    "member",
    [
        sparse(b"10", b"1\n0\n5\n", b"1234"),  # less data than the map says
        sparse(b"10", b"1\n0\n5\n", b"123456"),  # more
        sparse(b"3", b"1\n0\n5\n", b"12345"),  # behind the end
        sparse(b"10", b"2\n5\n2\n0\n2\n", b"1234"),  # backwards
        sparse(b"10", b"2\n0\n3\n2\n2\n", b"12345"),  # over each other
        sparse(b"10", b"9999999\n"),
        sparse(b"10", b"2\n0\n"),
        sparse(b"10", b"x\n"),
        sparse(b"99999999999999999999", b"0\n"),
        sparse(b"10", b"0\n", form=b"7"),
    ],
)
def test_bad_maps_of_sparse_files(overlay: Path, member: bytes) -> None:
    """A map has to be in order and to fit the data."""
    refused(archive(member), overlay, "bad-sparse")


def test_sparse_names_are_names(overlay: Path, outside: Path) -> None:
    """The real name of a sparse file stands elsewhere, and is looked at like any other."""
    records = {
        b"GNU.sparse.major": b"1", b"GNU.sparse.minor": b"0", b"GNU.sparse.realsize": b"0",
        b"GNU.sparse.name": b"workspace/../../outside/secret",
    }  # fmt: skip
    evil = entry(b"workspace/x", content=b"0\n" + bytes(510), records=records)
    refused(archive(evil), overlay, "parent-name")


def test_holes_larger_than_the_disk(overlay: Path) -> None:
    """A hole costs nothing; only what no file can be is refused."""
    data = archive(sparse(b"%d" % (1 << 43), b"1\n%d\n0\n" % (1 << 43)))
    try:
        unpack(data, {"/workspace": overlay}, Limits(content=1 << 20))
    except BadArchive as error:
        assert error.code == "too-large"
    else:
        assert (overlay / "s").stat().st_blocks == 0


def test_the_tenants_uid_is_all_there_is(overlay: Path, outside: Path) -> None:
    """Root restores as the tenant's own user: that is who everything belongs to."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    owners = Owners((1_900_000_009, 1_900_000_009))
    data = archive(directory(b"workspace/d/"), file(b"workspace/d/f"), fifo(b"workspace/p"))
    unpack(data, {"/workspace": overlay}, owners=owners)
    assert {facts[3] for facts in described(overlay).values()} == {1_900_000_009}


def test_what_is_named_stays_small(overlay: Path) -> None:
    """A list of what was left out has an end."""
    data = archive(*(file(b"gone%d/x" % n) for n in range(300)))
    result = unpack(data, {"/workspace": overlay})
    assert len(result.skipped) == 100
