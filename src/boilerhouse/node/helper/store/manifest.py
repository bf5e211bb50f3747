"""What is known of a stored version besides its bytes: a small JSON file beside each archive.

Manifest ─► <seq>-<digest>.json ─► Manifest
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from sys import intern
from typing import cast

from boilerhouse.node.helper.wire import Kind

_KINDS = ("save", "import", "restore", "side")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version. `ancestors`: digests of what it came from, nearest first, `base` included.

    `clean`: its Pod started without the files of `base`, which it may replace all the same.
    """

    digest: str
    size: int
    entries: int
    content: int
    base: str
    ancestors: tuple[str, ...]
    created_at: str
    pod: str
    kind: Kind
    clean: bool = False

    def encode(self) -> bytes:
        told = asdict(self)
        if not told["clean"]:
            del told["clean"]
        told["createdAt"] = told.pop("created_at")
        return json.dumps(told, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, body: bytes) -> Manifest:
        """Read a file; `ValueError` if it is not one of ours."""
        try:
            told = json.loads(body)
            kind = told["kind"]
            if kind not in _KINDS:
                raise ValueError(f"there is no kind {kind!r}")
            return cls(
                digest=str(told["digest"]),
                size=int(told["size"]),
                entries=int(told["entries"]),
                content=int(told["content"]),
                base=intern(str(told["base"])),
                # Shared: each version names nearly the same ancestors as the one before it.
                ancestors=tuple(intern(str(digest)) for digest in told["ancestors"]),
                created_at=str(told["createdAt"]),
                pod=str(told["pod"]),
                kind=cast(Kind, kind),
                clean=told.get("clean") is True,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a manifest: {error!r}") from None


@dataclass(frozen=True, slots=True)
class Stored:
    """A version on the volume. `exempt`: it is never pruned."""

    seq: int
    manifest: Manifest
    exempt: bool = False

    @property
    def digest(self) -> str:
        return self.manifest.digest

    @property
    def stem(self) -> str:
        """The name of its files, without their endings."""
        return f"{self.seq}-{self.manifest.digest}"


@dataclass(frozen=True, slots=True)
class Shelf:
    """All versions of one tenant's workload, oldest first, and which of them is current."""

    versions: tuple[Stored, ...] = ()
    current: Stored | None = None

    def find(self, seq: int) -> Stored | None:
        return next((one for one in self.versions if one.seq == seq), None)

    def newest(self, digest: str) -> Stored | None:
        """Return the newest version of this content."""
        return next((one for one in reversed(self.versions) if one.digest == digest), None)

    @property
    def next_seq(self) -> int:
        return max((one.seq for one in self.versions), default=0) + 1
