"""Makes image archives for tests: layers from dictionaries, docker archives, OCI layouts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")


def entry(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def directory(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hardlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def layer(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def config(layers: list[bytes], **fields: Any) -> bytes:
    digests = ["sha256:" + hashlib.sha256(content).hexdigest() for content in layers]
    document = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": fields,
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    return json.dumps(document).encode()


def docker_archive(path: Path, layers: list[bytes], names: list[str], **fields: Any) -> Path:
    described = config(layers, **fields)
    manifest = [
        {
            "Config": "config.json",
            "RepoTags": names,
            "Layers": [f"{number}/layer.tar" for number in range(len(layers))],
        }
    ]
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": described}
    files |= {f"{number}/layer.tar": content for number, content in enumerate(layers)}
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            archive.addfile(*_member(name, content))
    return path


def endless_archive(path: Path) -> Path:
    """An archive of a few hundred KB that takes most of a minute to read and writes nothing."""
    zeros = gzip.compress(bytes(64 << 20), mtime=0)
    return docker_archive(path, [gzip.compress(layer([entry("a")])) + zeros * 300], ["endless"])


def until_unpacking(store: Path) -> None:
    """Wait until a layer is being unpacked into a store; blocks."""
    while not list(store.glob(".import-*/layers/*")):
        time.sleep(0.01)


def oci_layout(path: Path, layers: list[bytes], name: str | None, **fields: Any) -> Path:
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return "sha256:" + digest

    manifest = {
        "schemaVersion": 2,
        "config": {"digest": blob(config(layers, **fields))},
        "layers": [{"digest": blob(gzip.compress(content, mtime=0))} for content in layers],
    }
    described: dict[str, Any] = {"digest": blob(json.dumps(manifest).encode())}
    described["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    if name is not None:
        described["annotations"] = {"org.opencontainers.image.ref.name": name}
    other = {"digest": "sha256:" + "0" * 64, "platform": {"architecture": "s390x", "os": "linux"}}
    (path / "index.json").write_text(json.dumps({"manifests": [other, described]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path


def as_tar(layout: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        archive.add(layout, ".", recursive=False)
        for found in sorted(layout.rglob("*")):
            archive.add(found, str(found.relative_to(layout)), recursive=False)
    return path


def _member(name: str, content: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, io.BytesIO(content)
