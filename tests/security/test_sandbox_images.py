"""Containers on images: a root file system of their own, written to without touching the image."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.container import ContainerSpec, ImageRoot, Mount, SandboxError
from boilerhouse.embedded.kubelet.images.images import Image, ImageStore
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox
from tests.security.containers import Heard, run, sandboxes
from tests.unit.embedded.kubelet.images.imagefiles import (
    directory,
    docker_archive,
    entry,
    layer,
    symlink,
)


def programs(*names: str) -> list[tuple[Any, bytes]]:
    """Return programs of this machine with the libraries they need, as entries of a layer."""
    files = {}
    for name in names:
        path = f"/usr/bin/{name}"
        files[f"bin/{name}"] = path
        told = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for word in told.split():
            if word.startswith("/"):
                files[word.lstrip("/")] = word
    return [
        entry(name, Path(source).read_bytes(), mode=0o755) for name, source in sorted(files.items())
    ]


@pytest.fixture
def image(tmp_path: Path) -> Image:
    base = layer(
        [
            directory("etc"),
            entry("etc/os-release", b"NAME=tiny\n"),
            entry("etc/secret", b"only root's\n", mode=0o600),
            entry("gone", b"hidden by the next layer\n"),
            directory("var"),
            symlink("var/run", "/run"),
            directory("run"),
            directory("tmp", mode=0o1777),
            symlink("log", "/dev/stdout"),
            symlink("trap", str(tmp_path / "outside")),
            *programs("dash", "cat", "ls", "id", "touch", "mkdir"),
        ]
    )
    top = layer([entry(".wh.gone"), symlink("bin/sh", "dash")])
    store = ImageStore(tmp_path / "images", SystemClock())
    (imported,) = store.import_image(docker_archive(tmp_path / "i.tar", [base, top], ["tiny"]))
    return imported


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Bubblewrapped]:
    async with sandboxes(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def pod(opened: Bubblewrapped) -> PodSandbox:
    return await opened.create("pod")


def on(image: Image, tmp_path: Path, script: str, **changes: Any) -> ContainerSpec:
    private = tmp_path / "data" / "rw"
    root = ImageRoot(image.layers, private / "upper", private / "work")
    spec = ContainerSpec("pod", "main", 0, root, ("sh", "-c", script), uid=0, gid=0)
    return replace(spec, **changes)


async def test_the_image_is_the_whole_world(pod: PodSandbox, image: Image, tmp_path: Path) -> None:
    """Nothing of the machine is there, whiteouts hide, and all files are the image user's own."""
    script = "id -u; ls /; cat /etc/os-release /etc/secret; ls /gone /usr/bin/python3 /etc/shadow"
    exited, out, err = await run(pod, on(image, tmp_path, script))
    names = set(out.decode().split())
    assert {"0", "NAME=tiny", "only", "bin", "proc", "dev"} <= names, err
    assert not {"gone", "home", "root", "sys", "opt"} & names
    assert err.count(b"No such file") == 3
    assert exited.code == 2


@pytest.mark.parametrize("uid", [0, 1000, 33])
async def test_writes_stay_with_the_container(
    pod: PodSandbox, image: Image, tmp_path: Path, uid: int
) -> None:
    """The user of the image may change its files; the image itself does not change."""
    script = "id -u; echo changed > /etc/os-release; touch /new; cat /etc/os-release"
    spec = on(image, tmp_path, script, uid=uid, gid=uid)
    exited, out, err = await run(pod, spec)
    assert (exited.code, out) == (0, f"{uid}\nchanged\n".encode()), err
    assert (image.layers[0] / "etc/os-release").read_text() == "NAME=tiny\n"
    upper = tmp_path / "data" / "rw" / "upper"
    assert (upper / "new").stat().st_uid == pod.host_uid


@pytest.mark.parametrize("uid", [0, 1000])
async def test_an_image_may_log_to_dev_stdout(
    pod: PodSandbox, image: Image, tmp_path: Path, uid: int
) -> None:
    """Official images link their logs there; whoever their user is may open it."""
    script = "echo out > /log; echo err > /dev/stderr"
    exited, out, err = await run(pod, on(image, tmp_path, script, uid=uid, gid=uid))
    assert (exited.code, out, err) == (0, b"out\n", b"err\n")


async def test_a_read_only_root_is_read_only(pod: PodSandbox, image: Image, tmp_path: Path) -> None:
    """With `read_only_root` only volumes can be written."""
    volume = tmp_path / "volume"
    volume.mkdir()
    pod.own(volume)
    spec = on(
        image,
        tmp_path,
        "touch /work/yes; touch /no",
        read_only_root=True,
        mounts=(Mount(volume, "/work"),),
    )
    _, _, err = await run(pod, spec)
    assert b"Read-only" in err
    assert (volume / "yes").exists()


async def test_links_of_an_image_do_not_move_a_volume_out(
    pod: PodSandbox, image: Image, tmp_path: Path
) -> None:
    """A mount point that the image made a link is followed inside the image only."""
    volume = tmp_path / "volume"
    volume.mkdir()
    pod.own(volume)
    outside = tmp_path / "outside"
    mounts = (Mount(volume, "/trap/deep"), Mount(volume, "/var/run/mine"))
    with pytest.raises(SandboxError):
        await pod.start(on(image, tmp_path, ":", mounts=mounts[:1]), Heard())
    assert not outside.exists()
    script = "touch /run/mine/here && ls /var/run/mine"
    exited, out, err = await run(pod, on(image, tmp_path, script, mounts=mounts[1:]))
    assert (exited.code, out) == (0, b"here\n"), err
    assert (volume / "here").exists()


async def test_a_missing_working_directory_is_made(
    pod: PodSandbox, image: Image, tmp_path: Path
) -> None:
    """WORKDIR of an image need not exist in it."""
    _, out, err = await run(pod, on(image, tmp_path, "echo $PWD", workdir="/srv/app"))
    assert out == b"/srv/app\n", err
    assert os.path.isdir(tmp_path / "data/rw/upper/srv/app")  # noqa: ASYNC240, PTH112
