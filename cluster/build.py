"""Builds Kubernetes and etcd from Go modules, once, into the cache.

module (go.mod with pins) ──► go build into a draft ──► ask its version ──► rename + stamp

A binary counts as present when it says the right version itself; the stamp only saves the asking.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.places import ETCD, KUBERNETES, ClusterError, Places

Say = Callable[[str], None]

_MINOR = KUBERNETES.split(".")[1]
_STAGING = "v0." + KUBERNETES.split(".", 1)[1]
_VERSION = "k8s.io/component-base/version"
_STAMPED = " ".join(
    f"-X {_VERSION}.{field}={value}"
    for field, value in (("gitVersion", f"v{KUBERNETES}"), ("gitMajor", "1"), ("gitMinor", _MINOR))
)


@dataclass(frozen=True)
class Binary:
    """A program to build, and how it tells its version."""

    name: str
    module: str
    version: str
    package: str
    ask: tuple[str, ...] = ("--version",)
    ldflags: str = ""

    @property
    def workspace(self) -> str:
        return f"{self.module.split('/')[1]}-{self.version}"


def _kube(name: str, *ask: str) -> Binary:
    return Binary(
        name, "k8s.io/kubernetes", KUBERNETES, f"k8s.io/kubernetes/cmd/{name}",
        ask or ("--version",), _STAMPED,
    )  # fmt: skip


_ETCD_MODULE = "go.etcd.io/etcd/server/v3"
API = (
    _kube("kube-apiserver"),  # first: it pays for the packages all others share
    _kube("kube-controller-manager"),
    _kube("kubectl", "version", "--client"),
    Binary("etcd", _ETCD_MODULE, ETCD, _ETCD_MODULE),
)
NODE = (*API, _kube("kube-scheduler"), _kube("kubelet"), _kube("kube-proxy"))
SETS = {"api": API, "node": NODE}


def missing(places: Places, binaries: Sequence[Binary]) -> list[Binary]:
    """Return those that are not there in the right version."""
    return [binary for binary in binaries if not _present(places, binary)]


def build(places: Places, binaries: Sequence[Binary], say: Say) -> None:
    """Build what is missing; a second build of the same cache waits for the first."""
    if not missing(places, binaries):
        return
    if shutil.which("go") is None:
        names = ", ".join(binary.name for binary in missing(places, binaries))
        raise ClusterError(f"{names} must be built, and the Go toolchain (`go`) is not in PATH")
    with _locked(places, say):
        todo = missing(places, binaries)
        for number, binary in enumerate(todo, 1):
            since = time.monotonic()
            say(f"[{number}/{len(todo)}] building {binary.name} {binary.version} …")
            _build(places, binary, prepare(places, binary, say))
            say(f"[{number}/{len(todo)}] {binary.name} {time.monotonic() - since:.0f} s")


def prepare(places: Places, binary: Binary, say: Say) -> Path:
    """Make the Go module that a binary is built in; it appears whole or not at all."""
    directory = places.modules / binary.workspace
    if directory.exists():
        return directory
    say(f"preparing the Go module for {binary.module} {binary.version}")
    draft = places.modules / f".{binary.workspace}.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    (draft / "go.mod").write_text("module testcluster\n\ngo 1.24.0\n")
    packages = sorted({b.package for b in NODE if b.module == binary.module})
    imports = "\n".join(f'import _ "{package}"' for package in packages)
    (draft / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
    at = f"{binary.module}@v{binary.version}"
    described = json.loads(_go(draft, "mod", "download", "-json", at))
    # Kubernetes requires its staging modules at v0.0.0 and replaces them by directories of its own
    # tree. A replacement does not reach the modules that use it, so each is pinned here.
    gomod = Path(described["GoMod"]).read_text()
    staging = re.findall(r"^\s+(k8s\.io/[a-z0-9-]+) => \./staging", gomod, re.MULTILINE)
    pins = [f"-replace={module}={module}@{_STAGING}" for module in staging]
    if pins:
        _go(draft, "mod", "edit", *pins)
    _go(draft, "get", at)
    _go(draft, "mod", "tidy")
    draft.rename(directory)
    return directory


def _build(places: Places, binary: Binary, module: Path) -> None:
    places.bin.mkdir(parents=True, exist_ok=True)
    draft = places.bin / f".{binary.name}.new"
    flags = f"-s -w {binary.ldflags}".strip()
    _go(module, "build", "-trimpath", "-ldflags", flags, "-o", str(draft), binary.package)
    if binary.version not in _says(draft, binary):
        raise ClusterError(f"the new {binary.name} does not say version {binary.version}")
    draft.rename(places.bin / binary.name)
    _stamp(places, binary)


def _present(places: Places, binary: Binary) -> bool:
    path = places.bin / binary.name
    if not path.exists():
        return False
    stamp = places.bin / f".{binary.name}.stamp"
    if stamp.exists() and stamp.read_text() == _fingerprint(path, binary):
        return True
    if not re.search(rf"\bv?{re.escape(binary.version)}\b", _says(path, binary)):
        return False
    _stamp(places, binary)
    return True


def _stamp(places: Places, binary: Binary) -> None:
    stamp = places.bin / f".{binary.name}.stamp"
    draft = stamp.with_suffix(".draft")
    draft.write_text(_fingerprint(places.bin / binary.name, binary))
    draft.rename(stamp)


def _fingerprint(path: Path, binary: Binary) -> str:
    stat = path.stat()
    return f"{binary.version} {stat.st_size} {stat.st_mtime_ns}\n"


def _says(path: Path, binary: Binary) -> str:
    try:
        done = subprocess.run(
            [path, *binary.ask], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _go(directory: Path, *args: str) -> str:
    done = subprocess.run(
        ["env", "CGO_ENABLED=0", "GOWORK=off", "go", *args],
        cwd=directory, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-15:])
        raise ClusterError(f"`go {args[0]} {args[1]}` failed in {directory}:\n{tail}")
    return done.stdout


@contextlib.contextmanager
def _locked(places: Places, say: Say) -> Iterator[None]:
    places.root.mkdir(parents=True, exist_ok=True)
    with (places.root / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
