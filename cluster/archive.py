"""Writes a directory as a one-layer image archive that `ctr images import` reads.

The bytes depend on the content alone (no times, no owners), so equal images have equal digests.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_EPOCH = "1970-01-01T00:00:00Z"


def write(
    target: Path,
    name: str,
    root: Path,
    *,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
) -> None:
    """Write the tree under `root` as image `name` to `target`, whole or not at all."""
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for entry in sorted(root.iterdir()):
                tar.add(entry, arcname=entry.name, filter=_anonymous)
        layer.seek(0)
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
        config = json.dumps(_config(digest, entrypoint, command)).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
        draft = target.with_name(target.name + ".new")
        with tarfile.open(draft, "w", format=tarfile.GNU_FORMAT) as tar:
            _add(tar, config_name, io.BytesIO(config), len(config))
            encoded = json.dumps(manifest).encode()
            _add(tar, "manifest.json", io.BytesIO(encoded), len(encoded))
            size = layer.seek(0, io.SEEK_END)
            layer.seek(0)
            _add(tar, "layer.tar", layer, size)
        draft.rename(target)


def _config(digest: str, entrypoint: Sequence[str], command: Sequence[str]) -> dict[str, object]:
    run: dict[str, object] = {
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "WorkingDir": "/",
    }
    if entrypoint:
        run["Entrypoint"] = list(entrypoint)
    if command:
        run["Cmd"] = list(command)
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": _EPOCH,
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": _EPOCH, "created_by": "boilerhouse test image"}],
    }


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _add(tar: tarfile.TarFile, name: str, content: io.IOBase, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    tar.addfile(info, content)
