"""The product's own image: Debian's Python, the locked wheels, and this repository's package.

apt-get download ─► unpacked ─► wheels ─► our package ─► compiled ─► archive ─► node

Neither a Docker engine nor a registry is needed. The wheels are installed by the hashes of
requirements.lock, so image and clone run the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cluster import archive
from cluster.build import Say
from cluster.places import ClusterError, Places

NAME = "localhost/boilerhouse:dev"

_ROOT = Path(__file__).resolve().parent.parent
_SOURCE = _ROOT / "src"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Python without pip, what its modules link to, and tar, which moves overlays.
_PACKAGES = [
    f"{_PYTHON}-minimal", f"lib{_PYTHON}-minimal", f"lib{_PYTHON}-stdlib", "libc6", "libgcc-s1",
    "zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libuuid1", "libcrypt1",
    "tar", "libacl1", "libselinux1", "libpcre2-8-0",
]  # fmt: skip
_MERGED = ("bin", "sbin", "lib", "lib64")  # as Debian has them: links into usr
_EMPTY = ("dev", "etc", "overlay", "proc", "run", "snapshots", "sys", "tmp", "var/lib")
_UNWANTED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian",
    "usr/share/info", "usr/share/bug", "usr/share/gcc",
)  # fmt: skip


def make(places: Places, say: Say) -> Path:
    """Make the image's archive unless one of this very content is there; return where it is."""
    places.images.mkdir(parents=True, exist_ok=True)
    target = places.images / f"boilerhouse-{_content()}.tar"
    if target.exists():
        return target
    say("making the image boilerhouse")
    with tempfile.TemporaryDirectory(prefix="boilerhouse-image-") as directory:
        root = Path(directory)
        _system(_debian(places, say), root)
        _install(root / "usr/lib/python3/dist-packages")
        _compile(root)
        archive.write(
            target, NAME, root, entrypoint=[f"/usr/bin/{_PYTHON}", "-Im", "boilerhouse.main"]
        )
    for old in places.images.glob("boilerhouse-*.tar"):
        if old != target:
            old.unlink()
    say(f"{NAME}: {target} ({target.stat().st_size >> 20} MiB)")
    return target


def _content() -> str:
    """Name what goes into the image: our sources, the lock, the recipe."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for name in ("requirements.lock", "pyproject.toml"):
        digest.update((_ROOT / name).read_bytes())
    for file in sorted(_SOURCE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(_SOURCE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _debian(places: Places, say: Say) -> list[Path]:
    """Download the packages, once."""
    kept = places.images / f"{_PYTHON}-debs"
    if not kept.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise ClusterError("the image is made of Debian's packages: apt-get is not here")
        say(f"downloading {_PYTHON} and its libraries")
        draft = kept.with_name(kept.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        if not _download(draft):
            subprocess.run(["apt-get", "update", "-qq"], check=False)  # lists missing or old
            if not _download(draft):
                raise ClusterError(f"apt-get could not download: {' '.join(_PACKAGES)}")
        draft.rename(kept)
    return sorted(kept.glob("*.deb"))


def _download(directory: Path) -> bool:
    # As the current user: apt's own may not enter our directories.
    command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *_PACKAGES]
    return subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL).returncode == 0


def _system(packages: list[Path], root: Path) -> None:
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in _EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for package in packages:
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as unpacking:
            subprocess.run(
                ["tar", "x", "--keep-directory-symlink", "-C", root],
                stdin=unpacking.stdout, check=True,
            )  # fmt: skip
        if unpacking.returncode:
            raise ClusterError(f"dpkg-deb cannot unpack {package}")
    for name in _UNWANTED:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/usr/sbin/nologin\nboilerhouse:x:65532:65532::/:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text("root:x:0:\nboilerhouse:x:65532:\n")


def _install(target: Path) -> None:
    """Install the package and what it needs to run, by the hashes of the lock."""
    uv = shutil.which("uv", path=f"{_ROOT / '.tools/bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise ClusterError("uv is not here: run `make setup`")
    lock = _ROOT / "requirements.lock"
    pinned = _run(
        [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate",
         "--constraint", lock, _ROOT / "pyproject.toml"]
    )  # fmt: skip
    names = {line.partition("==")[0] for line in pinned.splitlines() if "==" in line}
    install: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--target",
        target,
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(_only(names, lock.read_text()))
        wanted.flush()
        _run([*install, "--no-deps", "--require-hashes", "--requirement", wanted.name])
    _run([*install, "--no-deps", "--no-build-isolation", _ROOT])


def _only(names: set[str], lock: str) -> str:
    """Return the lock's entries of these names, hashes and all."""
    entries = re.split(r"\n(?=\S)", lock)
    return (
        "\n".join(entry for entry in entries if re.split(r"[=<>~! ;\[]", entry)[0] in names) + "\n"
    )


def _compile(root: Path) -> None:
    """Compile everything: the root is read-only in a Pod, and each start would do it again.

    Without times in it, since the archive has none.
    """
    where = [root / "usr/lib" / _PYTHON, root / "usr/lib/python3/dist-packages"]
    _run(
        [sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode",
         "unchecked-hash", "-s", root, *where]
    )  # fmt: skip


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(map(str, command[:4]))} … failed: {done.stderr[-2000:]}")
    return done.stdout
