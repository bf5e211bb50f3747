"""Versions that are built, and where things live: outside any clone, so that clones share them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.34.4"
ETCD = "3.6.7"


class ClusterError(Exception):
    """Something about the machine that the reader of the message can change."""


@dataclass(frozen=True)
class Places:
    """The directories of one installation; `Places.user()` is the one everybody shares."""

    root: Path

    @classmethod
    def user(cls) -> Places:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return cls(Path(cache) / "boilerhouse" / "cluster")

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def modules(self) -> Path:
        return self.root / "modules"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def node(self) -> Path:
        return self.root / "node"

    def binary(self, name: str) -> str:
        return str(self.bin / name)
