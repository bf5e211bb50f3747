"""What is said to an agent, and by it: paths, headers, bodies, refusals.

API, operator ─► helper (X-Boilerhouse-Agent says which agent is meant) ─► agent

Both ends and the helper between them share this module. It imports little on purpose: an agent
runs beside every tenant, and every import is paid for in each of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from boilerhouse.platform.rpc.payload import Payload
from boilerhouse.platform.rpc.refusal import Refused

# In the answers of `/state` and of a save: the tenant is being halted, and does not stand yet.
HALTING = "x-boilerhouse-halting"
AGENT = "x-boilerhouse-agent"  # to the helper only: host:port of the agent that is meant
AGENT_TOKEN = "x-boilerhouse-agent-token"  # noqa: S105  to the helper only: passed on as TOKEN

STARTED = "/started"
READY = "/ready"
IDENTITY = "/identity"
USAGE = "/usage"
CHANGES = "/changes"
FILES = "/files"
SAVE = "/save"
SAVED = "/saved"
THAW = "/thaw"
RESTORE = "/restore"
STATE = "/state"

BYTES = "application/octet-stream"
GZIP = "application/gzip"
SAVE_FAILED = "save-failed"  # code of the answer that says why a stream broke off

FILE_LIMIT = 256 << 20  # of one file written through the agent
LISTING_LIMIT = 10_000  # entries of one directory
SMALL_LIMIT = 64 << 10  # of a body that is read whole


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """What an instance is told about itself: one file each under /run/boilerhouse."""

    tenant: str
    workload: str
    claim: str
    token: str
    api_url: str

    def encode(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in _IDENTITY}).encode()

    @classmethod
    def decode(cls, body: bytes) -> IdentityFiles:
        """Read a body; `Refused` unless it is an object of exactly these texts."""
        try:
            told = json.loads(body)
        except ValueError as error:
            raise Refused(400, "bad-json", f"the identity is not JSON: {error}") from None
        if (
            not isinstance(told, dict)
            or set(told) != set(_IDENTITY)
            or not all(isinstance(value, str) and value for value in told.values())
        ):
            wanted = ", ".join(_IDENTITY)
            raise Refused(400, "bad-identity", f"an identity has the texts {wanted}")
        return cls(**told)


_IDENTITY = tuple(field.name for field in fields(IdentityFiles))


@dataclass(frozen=True, slots=True)
class Usage(Payload):
    """Disk use of an instance, as its file system counts it. Not `complete`: at least this much.

    `used` is more than the directories together if files are open that have no name any more
    (`unlinked`), or if there are files elsewhere that count to the instance.
    """

    used: int  # bytes
    entries: int
    complete: bool
    directories: Mapping[str, int]  # bytes of each
    age: float  # seconds since it was measured
    inodes: int = 0  # files and directories, each once; an older agent does not say
    unlinked: int = 0  # bytes
    limit: int = 0  # bytes; 0: none
    full: str = ""  # what is used up (`disklimit.Shortage`), so that the tenant is frozen, or not


@dataclass(frozen=True, slots=True)
class Changes(Payload):
    """The newest change under some directories, in nanoseconds since 1970; None if there is none.

    Not `complete`: the walk was cut short, so there may be a newer one; `unreadable` says which
    directories could not be looked through, and why. One that is not there is none of them.
    """

    newest: int | None
    complete: bool
    entries: int
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Payload):
    """One name in a directory. `escaped` is the name percent-encoded if it is not UTF-8."""

    name: str
    type: str  # file, directory, symlink or other
    size: int
    mode: int
    modified: int  # nanoseconds since 1970
    escaped: str | None = None


@dataclass(frozen=True, slots=True)
class Listing(Payload):
    """A directory's entries by name; `truncated` if there are more than LISTING_LIMIT."""

    entries: tuple[Entry, ...]
    truncated: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Listing:
        return cls(tuple(map(Entry.of, told["entries"])), told["truncated"])


@dataclass(frozen=True, slots=True)
class Unchanged(Payload):
    """The answer to a save that sends nothing: all is as in the version `digest` names."""

    digest: str
    unchanged: bool = True


@dataclass(frozen=True, slots=True)
class SaveReport(Payload):
    """What a save has sent. Not `stable`: something changed meanwhile, so it must be repeated.

    `torn`: a power loss may have taken parts of what was restored before (settling.py), so these
    bytes must not take the place of good ones. `skipped` names some of what no archive can keep.
    """

    sha256: str
    size: int
    entries: int
    content: int
    stable: bool
    fingerprint: str
    torn: bool = False
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreReport(Payload):
    """A snapshot is in the instance. `skipped`: what has no overlay directory any more.

    `already`: by an earlier call. `container`: the tenant's container as it was before, its name
    in the Pod's status without the runtime's prefix; empty if there was none, or none to be seen.
    """

    already: bool
    container: str
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State(Payload):
    """Where an agent stands. `restored`, `baseline`: digests, or empty. `bound`: it is somebody's.

    `baseline`: the version that the overlays were last known to be equal to.
    """

    restored: str
    baseline: str
    frozen: bool
    bound: bool
