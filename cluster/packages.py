"""Programs of the system that a node needs, installed from Debian's packages when absent."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from cluster.build import Say
from cluster.places import ClusterError

# package -> a file or program by which to know it is there
_NEEDED = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "busybox-static": "busybox",
    "iproute2": "ip",
    "openssl": "openssl",
}


def absent() -> list[str]:
    """Return the packages whose program is not on this machine."""
    return [package for package, sign in _NEEDED.items() if not _there(sign)]


def install(say: Say) -> None:
    """Install what is absent; nothing is started by it."""
    packages = absent()
    if not packages:
        return
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise ClusterError(f"install these packages (there is no apt-get here): {names}")
    say(f"installing {names}")
    if not _apt("install", packages):
        _apt("update", [])  # the lists may be missing or old
        if not _apt("install", packages) or absent():
            raise ClusterError(f"apt-get could not install: {names}")


def _apt(verb: str, packages: list[str]) -> bool:
    options = ["-y", "-qq", "--no-install-recommends"] if verb == "install" else ["-qq"]
    done = subprocess.run(
        ["apt-get", verb, *options, *packages],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode == 0


def _there(sign: str) -> bool:
    if sign.startswith("/"):
        return Path(sign).exists()
    return shutil.which(sign, path=search_path()) is not None


def search_path() -> str:
    """Return PATH with the system's directories, which a user's shell may lack."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/bin", "/bin"])
