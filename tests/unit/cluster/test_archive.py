"""Image archives: what is in them, and that equal content is equal bytes."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

from cluster import archive


def _tree(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("x")
    (root / "bin" / "tool").chmod(0o755)
    (root / "bin" / "alias").symlink_to("tool")
    return root


def test_an_archive_describes_itself(tmp_path: Path) -> None:
    """The manifest names the image and its layer, the config the layer's digest and command."""
    target = tmp_path / "image.tar"
    root = _tree(tmp_path / "root")
    archive.write(target, "localhost/tool:1", root, entrypoint=["/bin/tool"], command=["x"])
    with tarfile.open(target) as tar:

        def read(name: str) -> bytes:
            member = tar.extractfile(name)
            assert member is not None
            return member.read()

        (manifest,) = json.loads(read("manifest.json"))
        config = json.loads(read(manifest["Config"]))
        layer = read(manifest["Layers"][0])
    assert manifest["RepoTags"] == ["localhost/tool:1"]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert config["config"]["Entrypoint"] == ["/bin/tool"]
    assert config["config"]["Cmd"] == ["x"]


def test_equal_content_is_equal_bytes(tmp_path: Path) -> None:
    """Times and owners do not show: the same tree made twice is the same image."""
    for name in ("one", "two"):
        root = _tree(tmp_path / name)
        os.utime(root / "bin" / "tool", (len(name), 12345 if name == "one" else 99999))
        archive.write(tmp_path / f"{name}.tar", "localhost/tool:1", root)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
