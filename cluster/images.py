"""The images of the test node, made from local programs without any registry.

pause     the sandbox's init, ours          busybox   Debian's static one, every applet
echo      busybox and a small HTTP server
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from cluster import archive
from cluster.build import Say
from cluster.places import ClusterError, Places

PAUSE = "localhost/pause:1"
BUSYBOX = "localhost/busybox:1"
ECHO = "localhost/echo:1"

_PROGRAMS = Path(__file__).parent / "programs"
_TREE = ["bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr/bin", "var/tmp"]


def make(places: Places, say: Say) -> list[Path]:
    """Make the archives that are missing; return all of them."""
    places.images.mkdir(parents=True, exist_ok=True)
    recipes: dict[str, Callable[[Path, Path], None]] = {
        "pause-1": _pause,
        "busybox-1": _busybox,
        "echo-1": _echo,
    }
    archives = []
    for name, recipe in recipes.items():
        target = places.images / f"{name}.tar"
        archives.append(target)
        if not target.exists():
            say(f"making the image {name}")
            with tempfile.TemporaryDirectory(prefix="boilerhouse-image-") as root:
                recipe(Path(root), target)
    return archives


def _pause(root: Path, target: Path) -> None:
    _compile("pause", root / "pause")
    archive.write(target, PAUSE, root, entrypoint=["/pause"])


def _busybox(root: Path, target: Path) -> None:
    _userland(root)
    archive.write(target, BUSYBOX, root, command=["/bin/sh"])


def _echo(root: Path, target: Path) -> None:
    _userland(root)
    _compile("echo", root / "bin" / "echo-server")
    archive.write(target, ECHO, root, entrypoint=["/bin/echo-server"])


def _userland(root: Path) -> None:
    for name in _TREE:
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    source = shutil.which("busybox")
    if source is None:
        raise ClusterError("busybox is not installed: install the package busybox-static")
    shutil.copy(source, root / "bin/busybox")
    applets = subprocess.run([source, "--list"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")


def _compile(program: str, target: Path) -> None:
    if shutil.which("go") is None:
        raise ClusterError("the test images need the Go toolchain (`go`), which is not in PATH")
    subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), f"./{program}"],
        cwd=_PROGRAMS, env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}, check=True,
    )  # fmt: skip
