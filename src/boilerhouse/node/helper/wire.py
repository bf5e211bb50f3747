"""What is said about snapshots: the bodies of the helper's `/snapshots` routes.

helper/store ─► Version, Saved, Restored, Page ─► JSON ─► SnapshotClient

Both ends share this module, and the helper is a small program: nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast

from boilerhouse.platform.rpc.payload import Payload
from boilerhouse.platform.rpc.refusal import Refused

SNAPSHOTS = "/snapshots"
CURRENT = "/snapshots/current"
ARCHIVE = "/snapshots/archive"
SAVE = "/snapshots/save"
RESTORE = "/snapshots/restore"
PROMOTE = "/snapshots/promote"

VERSION = "x-boilerhouse-version"  # header of an archive that is sent: its Version as JSON
GZIP = "application/gzip"
HALTING = "halting"  # parameter: asks to be told at once that a tenant does not come to rest
MADE = 201  # a version was; with 200 what was asked for is current already

Kind = Literal["save", "import", "restore", "side"]
Mode = Literal["cold", "restart", "live"]

KEEP = 3  # versions of one tenant and workload, if the workload says nothing else


T = TypeVar("T", bound=Payload)


@dataclass(frozen=True, slots=True)
class Version(Payload):
    """One stored version of a tenant's overlays of a workload.

    `current` is the one that a claim restores. `path` is where the archive lies on the volume.
    """

    tenant: str
    workload: str
    path: str
    seq: int
    digest: str  # sha256 of the archive's bytes, as hex
    size: int  # bytes of the archive
    entries: int  # in the archive; 0 if nobody counted
    content: int  # bytes of the files in it; 0 if nobody counted
    created_at: str  # RFC 3339
    base: str  # digest of the version it came from, or ""
    kind: Kind
    pod: str  # UID of the Pod that wrote it, or ""
    current: bool
    exempt: bool = False  # from pruning


@dataclass(frozen=True, slots=True)
class Saved(Payload):
    """What became of a save: it is durable, whichever of these hold.

    Not `current`: another save or import took its place meanwhile, so these bytes are kept as a
    side version (`conflict`). `unchanged`: the stored version held exactly this already. `skipped`
    names some of what no archive can keep.
    """

    digest: str
    seq: int
    size: int
    entries: int
    current: bool
    unchanged: bool
    conflict: bool
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored(Payload):
    """A version is in the instance. `skipped`: what has no overlay directory any more.

    `already`: it was there before this call. `container`: the agent's word for the tenant's
    container as it was before a restart, or "".
    """

    digest: str
    already: bool
    skipped: tuple[str, ...] = ()
    container: str = ""


@dataclass(frozen=True, slots=True)
class Page(Payload):
    """A part of a list; `more` is where the next part begins, "" after the last."""

    items: tuple[Version, ...]
    more: str = ""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Page:
        return cls(tuple(map(Version.of, told["items"])), told["more"])


@dataclass(frozen=True, slots=True)
class SaveOrder(Payload):
    """Body of POST /snapshots/save. `base`: the digest the instance started from, or "".

    `round` numbers the orders to one instance; 0: this one has no number. `clean` is 1 if the
    instance started without the files of `base`.
    """

    tenant: str
    workload: str
    pod: str  # UID
    base: str
    keep: int
    round: int
    clean: int = 0  # an older operator does not say


@dataclass(frozen=True, slots=True)
class RestoreOrder(Payload):
    """Body of POST /snapshots/restore."""

    tenant: str
    workload: str
    pod: str  # UID
    digest: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class PromoteOrder(Payload):
    """Body of POST /snapshots/promote: the content of version `seq` becomes current."""

    tenant: str
    workload: str
    seq: int
    keep: int


def read_order(kind: type[T], body: bytes) -> T:
    """Read an order; `Refused` unless every field is there and of its type."""
    try:
        told = kind.decode(body)
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(400, "bad-order", f"the body is no {kind.__name__}: {error}") from None
    for field in fields(cast(Any, kind)):
        value, numeric = getattr(told, field.name), field.type == "int"
        if type(value) is not (int if numeric else str):
            raise Refused(400, "bad-order", f"{field.name} is not of its type")
    return told
