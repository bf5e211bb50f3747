"""Files of instances that run no processes: nothing to save, and saving may fail."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from boilerhouse.core.errors import Retry
from boilerhouse.node.agent.protocol import Changes, Usage
from boilerhouse.tenancy.claims.seen import Mode, SavedSeen


@dataclass
class Files:
    """What is stored, by tenant and workload; `failing` says why nothing can be saved.

    `away` says why nobody can tell what is stored.
    """

    failing: str = ""
    away: str = ""
    silent: bool = False  # nobody ever answers what is stored
    gate: asyncio.Event | None = None  # nothing is saved before it is set
    skipped: tuple[str, ...] = ()  # of what is saved
    saves: str = ""  # digest of whatever is saved; another each time if empty
    bases: list[str] = field(default_factory=list)  # of what was saved
    side_version: bool = False
    stored: dict[tuple[str, str], str] = field(default_factory=dict)
    restored: list[str] = field(default_factory=list)
    cleans: list[bool] = field(default_factory=list)
    newest: int | None = None  # change in every instance

    async def current(self, tenant: str, workload: str) -> str:
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise Retry(self.away)
        return self.stored.get((tenant, workload), "")

    async def previous(self, tenant: str, workload: str, digest: str) -> str:
        return ""

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> tuple[str, ...]:
        self.restored.append(digest)
        return ()

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
        if self.gate is not None:
            await self.gate.wait()
        if self.failing:
            raise Retry(self.failing)
        self.bases.append(base)
        self.cleans.append(clean)
        digest = self.saves or hashlib.sha256(f"{uid} {epoch}".encode()).hexdigest()
        if not self.side_version:
            self.stored[tenant, workload] = digest
        return SavedSeen(digest, self.side_version, self.skipped)

    async def thaw(self, pod: str, uid: str, *, epoch: int) -> None:
        return

    async def changes(self, pod: str, uid: str, directories: Sequence[str], since: int) -> Changes:
        return Changes(self.newest, True, 0)

    async def usage(self, pod: str, uid: str, disk_gb: int) -> Usage:
        return Usage(0, 0, True, {}, 0.0)
