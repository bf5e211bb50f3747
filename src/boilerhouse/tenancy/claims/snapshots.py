"""The way to stored files, and to what is in an instance: a port, since domains know no helper.

decided in claims ─► Snapshots ─► helper ─► store on the volume, agent of the instance

Every call may be made again. What cannot be reached now is `Retry`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from boilerhouse.core.errors import Terminal
from boilerhouse.node.agent.protocol import Changes, Usage
from boilerhouse.tenancy.claims.seen import Mode, SavedSeen


class Refused(Exception):
    """The step is not allowed now: a quota, another claim that was first, files that are bad."""


class CorruptVersion(Terminal):
    """The stored bytes of a version are not what was stored."""


class UnfitVersion(Terminal):
    """The stored bytes of a version are what was stored, and no instance takes them."""


class NoSuchVersion(Terminal):
    """A version is not, or no longer, stored."""


class TooLarge(Terminal):
    """A version has no room in an instance."""


class HookFailed(Terminal):
    """A command in an instance ended badly, or not in time."""


class Snapshots(Protocol):
    """Instances are named by Pod and UID, versions by digest; `turn` is the round (epochs.py)."""

    async def current(self, tenant: str, workload: str) -> str:
        """Return the version that a claim would restore; "" if nothing is stored."""
        ...

    async def previous(self, tenant: str, workload: str, digest: str) -> str:
        """Return the newest good version that is older than one; "" if there is none."""
        ...

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> tuple[str, ...]:
        """Put a version into an instance, once; return what of it has no place there any more.

        `CorruptVersion`, `UnfitVersion`, `NoSuchVersion`, `TooLarge`; nothing was changed for good
        then.
        """
        ...

    async def save(
        self,
        pod: str,
        uid: str,
        *,
        tenant: str,
        workload: str,
        base: str,
        epoch: int,
        keep: int,
        clean: bool,
        halting: Callable[[], None],
    ) -> SavedSeen:
        """Freeze an instance and store its files; returns once they are verified and durable.

        Afterwards the instance is frozen; after an error it runs on, unless nobody can tell.
        `halting` is called once if it does not come to rest soon.
        """
        ...

    async def thaw(self, pod: str, uid: str, *, epoch: int) -> None:
        """Let a frozen instance run on."""
        ...

    async def changes(self, pod: str, uid: str, directories: Sequence[str], since: int) -> Changes:
        """Return the newest change under directories of an instance."""
        ...

    async def usage(self, pod: str, uid: str, disk_gb: int) -> Usage:
        """Return the disk use of an instance as it was counted last; `disk_gb`: its limit now."""
        ...


class Hooks(Protocol):
    """The way to run a workload's own commands in an instance."""

    async def run(self, pod: str, command: Sequence[str], timeout: timedelta) -> None:
        """Run a command to its end in the tenant's container; `HookFailed` if it ends badly."""
        ...
