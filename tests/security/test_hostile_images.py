"""Archives of images that were made to harm: refused in time, with a sentence; nothing stays."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import time
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.images.images import ImageStore
from boilerhouse.embedded.kubelet.images.importing import UnpackingProcess
from boilerhouse.embedded.kubelet.images.layers import BadImage
from tests.unit.embedded.kubelet.images.imagefiles import (
    directory,
    docker_archive,
    endless_archive,
    entry,
    layer,
)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images", FakeClock())


def negative(kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header whose size is negative, in GNU's binary form (CVE-2025-8194)."""
    info = tarfile.TarInfo("a")
    info.type = kind
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = (-1024).to_bytes(12, "big", signed=True)
    return _summed(block)


def _summed(block: bytearray) -> bytes:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(records: bytes, size: int | None = None) -> bytes:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = len(records) if size is None else size
    return info.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)


def plain(name: str = "a") -> bytes:
    return tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT)


def record(key: str, value: str) -> bytes:
    bare = len(key) + len(value) + 3
    length = bare + len(str(bare))
    length = bare + len(str(length))
    return f"{length} {key}={value}\n".encode()


def old_sparse() -> bytes:
    block = bytearray(plain())
    block[156:157] = tarfile.GNUTYPE_SPARSE
    block[257:265] = b"ustar  \0"
    block[482] = 1  # more maps follow, and each says so
    return _summed(block) + (bytes(504) + b"\1" + bytes(7)) * 2000


END = bytes(1024)
HOSTILE = {
    "negative size": negative() + END,
    "negative size, of a directory": negative(tarfile.DIRTYPE) + END,
    "negative size, of an unknown kind": negative(b"Z") + END,
    "negative size, by a pax record": pax(record("size", "-1024")) + plain() + END,
    "pax records without end": pax(b"9999999999 a=b\n") + plain() + END,
    "a pax header of gigabytes": pax(b"", 8 * 1024**3 - 512) + END,
    "headers that announce headers": pax(record("comment", "x")) * 20_000 + plain() + END,
    "a sparse file, old": old_sparse() + END,
    "a sparse file, 0.1": pax(record("GNU.sparse.map", "0,1") + record("GNU.sparse.size", "9"))
    + plain()
    + END,
    "a sparse file, 1.0": pax(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"))
    + plain()
    + b"99999999999\n".ljust(512, b"1")
    + END,
    "a time beyond all times": pax(record("mtime", "9" * 300)) + plain() + END,
    "a name with a zero byte": pax(record("path", "a\0b")) + plain() + END,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", ["archive", "layer"])
def test_a_hostile_header_is_refused(
    store: ImageStore, tmp_path: Path, content: bytes, place: str
) -> None:
    """In the archive itself or in a layer of it: a sentence, soon, and nothing is left of it."""
    path = tmp_path / "hostile.tar"
    if place == "archive":
        path.write_bytes(content)
    else:
        docker_archive(path, [content], ["a"])
    before = time.process_time()
    with pytest.raises(BadImage):
        store.import_image(path, "a", UnpackingProcess(seconds=20))
    assert time.process_time() - before < 5, "this process has computed"
    assert_nothing_left(store, tmp_path)


def assert_nothing_left(store: ImageStore, tmp_path: Path) -> None:
    assert store.names() == []
    assert {path.name for path in (tmp_path / "images").rglob("*")} == {"layers", "config"}


def test_members_without_end_are_refused_and_cost_little_memory(
    store: ImageStore, tmp_path: Path
) -> None:
    """A few MB with 400,000 members are refused, and this process grows by nothing."""
    path = tmp_path / "many.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for start in range(0, 400_000, 1000):
            file.write(b"".join(plain(f"m{n}") for n in range(start, start + 1000)))
        file.write(END)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadImage, match="more than 100000 members"):
        store.import_image(path, "a")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kilobytes
    assert_nothing_left(store, tmp_path)


def test_an_import_that_takes_too_long_is_ended(store: ImageStore, tmp_path: Path) -> None:
    """A few hundred KB that are read for a minute: ended at the bound, which the error names."""
    path = endless_archive(tmp_path / "endless.tar")
    with pytest.raises(BadImage, match=r"longer than 2 seconds|takes too long"):
        store.import_image(path, None, UnpackingProcess(seconds=2))
    assert_nothing_left(store, tmp_path)


def test_directories_in_directories_are_cleared_away(store: ImageStore, tmp_path: Path) -> None:
    """Links that lead deeper make a tree deeper than any one name; a refusal leaves none of it."""
    entries = [directory("/".join("d" * 150))]
    at = "/".join("d" * 150)
    for number in range(8):
        link = tarfile.TarInfo(f"{number}")
        link.type, link.linkname = tarfile.SYMTYPE, at
        at = f"{number}/" + "/".join("d" * 150)
        entries += [(link, b""), directory(at)]
    content = layer(entries)
    path = docker_archive(tmp_path / "deep.tar", [content, negative() + END], ["a"])
    with pytest.raises(BadImage):
        store.import_image(path)
    assert_nothing_left(store, tmp_path)


def test_a_real_archive_with_links_is_read(store: ImageStore, tmp_path: Path) -> None:
    """An older `docker save` writes a layer that it repeats as a link to the first."""
    path = docker_archive(tmp_path / "a.tar", [layer([entry("x", b"1")])] * 2, ["a"])
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]  # all files
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            if name == "1/layer.tar":
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, "../0/layer.tar"
                archive.addfile(link)
            else:
                info, _ = entry(name, content)
                archive.addfile(info, io.BytesIO(content))
    (image,) = store.import_image(path)
    assert (image.layers[0] / "x").read_bytes() == b"1"
