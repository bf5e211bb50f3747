"""An upload is judged as a restore would judge it: the same archives pass, for the same reasons."""

from __future__ import annotations

import os
import random
import shutil
import tracemalloc
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from boilerhouse.platform.archive.entries import Entries
from boilerhouse.platform.archive.failures import BadArchive
from boilerhouse.platform.archive.reader import Reader
from boilerhouse.platform.archive.sketch import EMPTY, FULL, NOTHING, OTHER, Names, Sketch
from boilerhouse.platform.archive.source import Source
from boilerhouse.platform.archive.unpack import Unpack
from boilerhouse.platform.archive.walk import OPEN_DIRECTORY
from tests.security.archives.hostile import END, directory, entry, fifo, file, hard_link, symlink

OVERLAYS = (b"workspace", b"var/data")
Verdict = tuple[str, str] | tuple[int, int, tuple[str, ...]]


def reading(members: Iterator[bytes], entries: int) -> tuple[Source, Reader]:
    pieces = chain(members, [END])
    source = Source(lambda: next(pieces, b""))
    return source, Reader(source, entries, 1 << 30)


def restored(members: list[bytes], where: Path, entries: int) -> Verdict:
    """Return what comes of unpacking: why not, or how much."""
    roots = []
    for number, path in enumerate(OVERLAYS):
        (where / str(number)).mkdir()
        roots.append((path, os.open(where / str(number), OPEN_DIRECTORY)))
    source, reader = reading(iter(members), entries)
    try:
        unpack = Unpack(source, reader, roots, owners=False)
        unpack.run()
    except BadArchive as bad:
        return bad.code, bad.message
    finally:
        for _, root in roots:
            os.close(root)
        for number in range(len(OVERLAYS)):
            shutil.rmtree(where / str(number))
    return reader.entries, reader.content, tuple(unpack.skipped)


def judged(members: Iterator[bytes], entries: int) -> Verdict:
    """Return what an upload's judgement is."""
    source, reader = reading(members, entries)
    targets = {tuple(path.split(b"/")): Sketch(source, reader.imply) for path in OVERLAYS}
    look = Entries(source, reader, targets)
    try:
        while (found := reader.next()) is not None:
            look.place(*found)
        reader.finish()
    except BadArchive as bad:
        return bad.code, bad.message
    return reader.entries, reader.content, tuple(look.skipped)


def some_name(rng: random.Random) -> bytes:
    """Return a name that others are likely to have as well, or to be below."""
    top = rng.choice([b"workspace"] * 9 + [b"var/data", b"var", b"./workspace/", b"elsewhere"])
    return b"/".join([top, *rng.choices([b"a", b"b", b"."], k=rng.randrange(4))])


def some_member(rng: random.Random) -> bytes:
    name = some_name(rng)
    match rng.randrange(9):
        case 0 | 1:
            return file(name)
        case 2 | 3:
            return directory(name + b"/")
        case 4:
            return symlink(name, some_name(rng))
        case 5 | 6:
            return hard_link(name, some_name(rng))
        case 7:
            return fifo(name)
    attribute = rng.choice([b"user.", b"user.a", b"user." + b"n" * 251, b"user." + b"n" * 250])
    return entry(name, content=b"x", records={b"SCHILY.xattr." + attribute: b"v"})


def test_an_upload_is_judged_like_a_restore(tmp_path: Path) -> None:
    """Whatever entries follow each other: the same verdict, word for word."""
    rng = random.Random(55)
    reasons: set[str] = set()
    taken = 0
    for _ in range(500):
        members = [some_member(rng) for _ in range(rng.randrange(1, 9))]
        limit = rng.choice([4, 100, 100])
        expected = restored(members, tmp_path, limit)
        assert judged(iter(members), limit) == expected, members
        if isinstance(expected[0], str):
            reasons.add(expected[0])
        else:
            taken += 1
    assert reasons >= {
        "through-link", "twice", "bad-link", "link-outside", "bad-name", "bad-attribute",
        "too-large",
    }  # fmt: skip
    assert taken > 50


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([symlink(b"workspace/l", b"/tmp"), file(b"workspace/l/pwned")], "through-link"),
        ([hard_link(b"workspace/h", b"/etc/passwd")], "absolute-name"),
        ([hard_link(b"workspace/h", b"workspace/../../../etc/passwd")], "parent-name"),
        (
            [symlink(b"workspace/l", b"/etc"), hard_link(b"workspace/h", b"workspace/l/passwd")],
            "through-link",
        ),
        ([hard_link(b"workspace/h", b"workspace/none/passwd")], "bad-link"),
        ([symlink(b"workspace", b"/etc")], "bad-name"),
        ([file(b"workspace")], "bad-name"),
        ([file(b"workspace/d/in"), file(b"workspace/d")], "twice"),
    ],
)
def test_what_could_never_be_restored(members: list[bytes], code: str, tmp_path: Path) -> None:
    """It is refused by either, and it is never the machine's fault, which one would try again."""
    assert judged(iter(members), 100)[0] == code
    assert restored(members, tmp_path, 100)[0] == code


def test_directories_that_a_long_name_implies_are_counted(tmp_path: Path) -> None:
    """One entry can be two thousand directories: both count them, and end at the limit."""
    members = [file(b"workspace/%d/" % n + b"d/" * 400 + b"f") for n in range(3)]
    for limit, refused in ((1206, False), (1205, True)):
        verdicts = judged(iter(members), limit), restored(members, tmp_path, limit)
        assert verdicts[0] == verdicts[1]
        assert (verdicts[0][0] == "too-large") is refused


def test_names_are_remembered_in_little_room() -> None:
    """Twenty thousand of them take less than half a megabyte, and none is forgotten."""
    rng = random.Random(7)
    places = [rng.getrandbits(64) - (1 << 63) for _ in range(20_000)]
    tracemalloc.start()
    try:
        names = Names()
        for number, place in enumerate(places):
            names.put(place, OTHER + number % 3)
        size, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 550_000
    assert most < 650_000
    assert all(names.get(place) == OTHER + n % 3 for n, place in enumerate(places))
    assert names.get(12345) == NOTHING
    names.put(places[0], FULL)
    names.put(places[0], EMPTY)
    assert names.get(places[0]) == EMPTY
