"""The image store: what it takes, what it refuses, what it keeps."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.images import images
from boilerhouse.embedded.kubelet.images.imageconfig import resolve_user
from boilerhouse.embedded.kubelet.images.images import ImageInUse, ImageStore
from boilerhouse.embedded.kubelet.images.importing import Cancelled, UnpackingProcess
from boilerhouse.embedded.kubelet.images.layers import BadImage, Budget, unpack
from boilerhouse.embedded.kubelet.kernel.trees import remove_tree
from tests.unit.embedded.kubelet.images.imagefiles import (
    as_tar,
    config,
    directory,
    docker_archive,
    endless_archive,
    entry,
    hardlink,
    layer,
    oci_layout,
    symlink,
    until_unpacking,
)

BASE = layer([directory("etc"), entry("etc/passwd", b"root:x:0:0::/:\nweb:x:33:34::/:\n")])
TOP = layer([directory("app"), entry("app/run", b"#!/bin/sh\n", mode=0o755)])
SETTINGS: dict[str, Any] = {
    "Entrypoint": ["/app/run"],
    "Cmd": ["--fast"],
    "Env": ["A=1", "B=x=y", "EMPTY="],
    "User": "web",
    "WorkingDir": "/app",
    "ExposedPorts": {"8080/tcp": {}, "53/udp": {}, "80": {}},
}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images", FakeClock())


@pytest.mark.processes
def test_a_docker_archive_is_imported_under_its_names(store: ImageStore, tmp_path: Path) -> None:
    """What `docker save` wrote is there with its configuration and its files."""
    path = docker_archive(tmp_path / "a.tar", [BASE, TOP], ["shop:1", "shop:new"], **SETTINGS)
    store.import_image(path)
    assert store.names() == ["shop:1", "shop:new"]
    image = store.get("shop:1")
    assert image is not None
    assert image.config.entrypoint == ("/app/run",)
    assert image.config.cmd == ("--fast",)
    assert dict(image.config.env) == {"A": "1", "B": "x=y", "EMPTY": ""}
    assert image.config.workdir == "/app"
    assert image.config.ports == (80, 8080)
    assert [(layer / "app/run").exists() for layer in image.layers] == [False, True]
    assert (image.layers[1] / "app/run").stat().st_mode & 0o777 == 0o755
    assert resolve_user(image.config.user, image.layers) == (33, 34)


@pytest.mark.processes
def test_an_oci_layout_is_imported(store: ImageStore, tmp_path: Path) -> None:
    """A layout is taken as a tar, with gzipped layers, for this machine only."""
    path = oci_layout(tmp_path / "layout", [BASE, TOP], "shop")
    (image,) = store.import_image(as_tar(path, tmp_path / "layout.tar"))
    assert image.name == "shop:latest"
    assert (image.layers[0] / "etc/passwd").exists()


@pytest.mark.processes
def test_an_image_survives_a_restart_and_is_found_without_its_tag(
    store: ImageStore, tmp_path: Path
) -> None:
    """The index on disk is enough to find it again."""
    store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["shop:latest"]))
    again = ImageStore(tmp_path / "images", FakeClock())
    assert again.get("shop") == store.get("shop:latest") is not None


@pytest.mark.processes
def test_layers_are_shared_and_go_with_their_last_image(store: ImageStore, tmp_path: Path) -> None:
    """A layer stays while any image has it, and its size counts for each."""
    store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    store.import_image(docker_archive(tmp_path / "b.tar", [BASE, TOP], ["b"]))
    a, b = store.get("a"), store.get("b")
    assert a is not None
    assert b is not None
    assert a.layers[0] == b.layers[0]
    assert b.size > a.size > 0
    assert store.remove("a") is True
    assert b.layers[0].is_dir()
    assert store.remove("b") is True
    assert not b.layers[0].exists()
    assert store.remove("b") is False


@pytest.mark.processes
def test_a_repeated_layer_counts_at_its_topmost_place(store: ImageStore, tmp_path: Path) -> None:
    """Each layer is stacked once, as overlayfs demands, where its last occurrence was."""
    path = docker_archive(tmp_path / "a.tar", [TOP, BASE, TOP], ["a"])
    (image,) = store.import_image(path)
    assert [(layer / "app").exists() for layer in image.layers] == [False, True]


@pytest.mark.processes
def test_an_image_in_use_is_not_removed(store: ImageStore, tmp_path: Path) -> None:
    """Removal is refused, naming the user, until the last one has let go."""
    (image,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    store.hold(image, "pod x")
    with pytest.raises(ImageInUse, match="pod x"):
        store.remove("a")
    store.let_go("pod x")
    assert store.remove("a") is True


@pytest.mark.processes
def test_a_replaced_name_keeps_the_layers_of_what_still_runs(
    store: ImageStore, tmp_path: Path
) -> None:
    """Importing a newer image under the same name takes nothing away from running Pods."""
    (old,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    store.hold(old, "pod x")
    store.import_image(docker_archive(tmp_path / "b.tar", [TOP], ["a"]))
    assert old.layers[0].is_dir()


@pytest.mark.processes
def test_a_damaged_layer_is_refused_and_nothing_is_left(store: ImageStore, tmp_path: Path) -> None:
    """Content that is not what the image says never becomes an image."""
    path = docker_archive(tmp_path / "a.tar", [BASE], ["a"])
    with tarfile.open(path) as archive:
        damaged = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]  # all files
    damaged["config.json"] = config([TOP])
    with tarfile.open(path, "w") as archive:
        for name, content in damaged.items():
            info, _ = entry(name, content)
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(BadImage, match="content"):
        store.import_image(path)
    assert store.names() == []
    assert list((tmp_path / "images" / "layers").iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "tar"),
        (b"not a tar at all" * 100, "tar"),
        (layer([entry("readme", b"hello")]), "neither"),
        (layer([entry("manifest.json", b"{]")]), "JSON"),
        (layer([entry("manifest.json", b'[{"Config": 7}]')]), "malformed"),
        (layer([entry("manifest.json", b"[]")]), "no image"),
        (layer([entry("index.json", b'{"manifests": [{"digest": "md5:x"}]}')]), "sha256"),
    ],
)
def test_what_is_no_image_is_refused(
    store: ImageStore, tmp_path: Path, content: bytes, said: str
) -> None:
    """Files that are not images give an error that says what is wrong."""
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(BadImage, match=said):
        store.import_image(tmp_path / "x.tar", "x")


def unpacked(tmp_path: Path, content: bytes, budget: Budget | None = None) -> Path:
    root = tmp_path / "inside" / "layer"
    root.mkdir(parents=True)
    (tmp_path / "outside").write_text("untouched")
    (tmp_path / "layer.tar").write_bytes(content)
    with (tmp_path / "layer.tar").open("rb") as file:
        unpack(file, root, budget or Budget())
    return root


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../../outside", b"evil")],
        [entry("a/../../../outside", b"evil")],
        [hardlink("link", "../../outside")],
        [symlink("up", ".."), hardlink("link", "up/outside")],
    ],
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, entries: list[Any]) -> None:
    """Names and hard links with `..`, or to nowhere inside, fail the whole layer."""
    with pytest.raises(BadImage):
        unpacked(tmp_path, layer(entries))
    assert (tmp_path / "outside").read_text() == "untouched"


def test_links_lead_to_places_inside_only(tmp_path: Path) -> None:
    """An absolute link, or one upwards, is followed as if the layer were the whole machine."""
    target = tmp_path / "outside"
    content = layer(
        [
            symlink("abs", str(tmp_path)),
            directory(str(tmp_path)),
            entry("abs/outside", b"inside"),
            symlink("up", "../../../.."),
            entry("up/etc-here", b"inside"),
            symlink("file", str(target)),
            entry("file", b"replaced, not written through"),
            entry("/absolute", b"inside"),
        ]
    )
    root = unpacked(tmp_path, content)
    assert target.read_text() == "untouched"
    assert (root / str(tmp_path).lstrip("/") / "outside").read_bytes() == b"inside"
    assert (root / "etc-here").read_bytes() == b"inside"
    assert not (root / "file").is_symlink()
    assert (root / "absolute").read_bytes() == b"inside"


def test_devices_and_set_id_bits_do_not_come_in(tmp_path: Path) -> None:
    """What could give power is left out or stripped."""
    content = layer(
        [
            entry("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=1),
            entry("fifo", type=tarfile.FIFOTYPE),
            entry("su", b"x", mode=0o6755),
            entry("dark", b"x", mode=0),
            directory("closed", mode=0),
        ]
    )
    root = unpacked(tmp_path, content)
    assert sorted(path.name for path in root.iterdir()) == ["closed", "dark", "su"]
    assert (root / "su").stat().st_mode & 0o7777 == 0o755
    assert (root / "dark").stat().st_mode & 0o400


def test_whiteouts_become_what_overlayfs_understands(tmp_path: Path) -> None:
    """A hidden file is a device 0/0, a hidden directory content an attribute."""
    content = layer([entry("a/.wh.gone"), directory("b"), entry("b/.wh..wh..opq")])
    root = unpacked(tmp_path, content)
    hidden = (root / "a/gone").lstat()
    assert stat.S_ISCHR(hidden.st_mode)
    assert hidden.st_rdev == 0
    assert os.getxattr(root / "b", "user.overlay.opaque") == b"y"


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh..."])
def test_a_whiteout_of_nothing_is_refused(tmp_path: Path, name: str) -> None:
    """A whiteout must name a file."""
    with pytest.raises(BadImage):
        unpacked(tmp_path, layer([entry(name)]))


def test_sizes_are_bounded(tmp_path: Path) -> None:
    """An image larger than allowed stops before it fills the disk."""
    with pytest.raises(BadImage, match="larger"):
        unpacked(tmp_path, layer([entry("big", bytes(5000))]), Budget(bytes=1000))


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    """An image with too many entries is refused."""
    with pytest.raises(BadImage, match="files"):
        unpacked(tmp_path, layer([entry(str(n)) for n in range(20)]), Budget(entries=10))


def test_an_oversized_header_is_refused_unread(tmp_path: Path) -> None:
    """A header that claims gigabytes is not read into memory."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type = tarfile.XHDTYPE
    info.size = 8 * 1024**3 - 512
    with pytest.raises(BadImage, match="oversized"):
        unpacked(tmp_path, info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("user", "ids"),
    [("", (0, 0)), ("7", (7, 0)), ("33", (33, 34)), ("7:8", (7, 8)), ("web:9", (33, 9))],
)
def test_users_are_numbers_or_names_of_the_image(
    store: ImageStore, tmp_path: Path, user: str, ids: tuple[int, int]
) -> None:
    """USER in all its spellings gives the ids inside."""
    (image,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE, TOP], ["a"]))
    assert resolve_user(user, image.layers) == ids


@pytest.mark.processes
@pytest.mark.parametrize("user", ["nobody-here", "web:no-group", "99999999999"])
def test_an_unknown_user_is_refused(store: ImageStore, tmp_path: Path, user: str) -> None:
    """A user the image does not have is an error that names it."""
    (image,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    with pytest.raises(SandboxError):
        resolve_user(user, image.layers)


@pytest.mark.processes
async def test_an_import_holds_nothing_that_the_event_loop_takes(
    store: ImageStore, tmp_path: Path
) -> None:
    """Containers start and end while an archive is unpacked for as long as it takes."""
    (image,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    unpacking = UnpackingProcess()
    importing = asyncio.create_task(
        asyncio.to_thread(store.import_image, endless_archive(tmp_path / "b.tar"), None, unpacking)
    )
    await asyncio.to_thread(until_unpacking, tmp_path / "images")
    assert store.hold(image, "pod x")
    store.let_go("pod x")
    assert await asyncio.to_thread(store.remove, "a"), "another image can go meanwhile"
    assert not importing.done()
    unpacking.cancel()
    with pytest.raises(Cancelled):
        await importing
    assert not list((tmp_path / "images").glob(".import-*"))


@pytest.mark.processes
def test_what_an_import_counts_on_stays_until_it_is_through(
    store: ImageStore, tmp_path: Path
) -> None:
    """A layer that is not unpacked again is there when the import ends, whatever is removed."""
    store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))

    class Meanwhile(UnpackingProcess):
        def run(self, *job: Any) -> Any:
            found = super().run(*job)
            assert store.remove("a")
            return found

    path = docker_archive(tmp_path / "b.tar", [BASE, TOP], ["b"])
    (image,) = store.import_image(path, None, Meanwhile())
    assert [layer.is_dir() for layer in image.layers] == [True, True]


@pytest.mark.processes
def test_two_imports_of_one_image_at_a_time(store: ImageStore, tmp_path: Path) -> None:
    """Both succeed, and what one has unpacked too many is gone."""
    path = docker_archive(tmp_path / "a.tar", [BASE, TOP], ["a"])
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(store.import_image, [path, path])
    assert first[0].layers == second[0].layers
    assert sorted(first[0].layers) == sorted((tmp_path / "images" / "layers").iterdir())


@pytest.mark.processes
def test_layers_that_are_being_deleted_cannot_be_held(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that comes while its image goes is told so, instead of starting on half of it."""
    (image,) = store.import_image(docker_archive(tmp_path / "a.tar", [BASE], ["a"]))
    held = []

    def removing(path: Path) -> None:
        held.append(store.hold(image, "pod x"))
        remove_tree(path)

    monkeypatch.setattr(images, "remove_tree", removing)
    assert store.remove("a")
    assert held == [False]
