"""What claims ask about their tenants' files, put to the helper.

claims.snapshots.Snapshots ─► HelperSnapshots ─► SnapshotClient, HelperClient ─► helper

What the helper or an agent refuses becomes what claims know: a version that is gone, damaged, too
large or refused is told apart, since a decision hangs on it; everything else is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boilerhouse.core.errors import Retry
from boilerhouse.node.agent.protocol import Changes, Usage
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.seen import Mode, SavedSeen
from boilerhouse.tenancy.claims.snapshots import (
    CorruptVersion,
    NoSuchVersion,
    TooLarge,
    UnfitVersion,
)
from boilerhouse.tenancy.snapshots.asking import HelperUnavailable
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient

PATIENCE = 10.0  # seconds for what is answered at once by a helper that is well

_KNOWN = {
    "no-such-version": NoSuchVersion,
    "corrupt-version": CorruptVersion,
    "too-large": TooLarge,
    "bad-archive": UnfitVersion,
}


@dataclass(frozen=True, slots=True)
class HelperSnapshots:
    """`Snapshots` by way of the helper."""

    snapshots: SnapshotClient
    helper: HelperClient

    async def current(self, tenant: str, workload: str) -> str:
        """Return the version that a claim would restore; "" if nothing is stored."""
        try:
            with _TRANSLATED:
                async with asyncio.timeout(PATIENCE):
                    found = await self.snapshots.current(tenant, workload, claim=True)
        except TimeoutError:
            # Somebody waits for it, and is told what for (tenancy/claims/deciding/trying.py).
            words = f"the snapshot helper does not answer within {PATIENCE:g} s"
            raise HelperUnavailable(words) from None
        return "" if found is None else found.digest

    async def previous(self, tenant: str, workload: str, digest: str) -> str:
        """Return the newest version that is older than one; "" if there is none.

        Whether its bytes are good shows when it is restored. Side versions are nobody's past.
        """
        with _TRANSLATED:
            found = await self.snapshots.list(tenant=tenant, workload=workload, versions=True)
        upto = max((v.seq for v in found if v.digest == digest), default=0)
        older = [v for v in found if v.seq < upto and v.kind != "side" and v.digest != digest]
        return max(older, key=lambda version: version.seq).digest if older else ""

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> tuple[str, ...]:
        """Put a version into an instance, once; return what of it has no place there any more."""
        with _TRANSLATED:
            restored = await self.snapshots.restore(
                pod, uid, tenant=tenant, workload=workload, digest=digest, mode=mode
            )
        return restored.skipped

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
        """Freeze an instance and store its files; returns once they are verified and durable."""
        with _TRANSLATED:
            saved = await self.snapshots.save(
                pod,
                uid,
                tenant=tenant,
                workload=workload,
                base=base,
                keep=keep,
                epoch=epoch,
                clean=clean,
                halting=halting,
            )
        return SavedSeen(saved.digest, side_version=saved.conflict, skipped=saved.skipped)

    async def thaw(self, pod: str, uid: str, *, epoch: int) -> None:
        """Let a frozen instance run on."""
        with _TRANSLATED:
            await self.snapshots.thaw(pod, uid, epoch=epoch)

    async def changes(self, pod: str, uid: str, directories: Sequence[str], since: int) -> Changes:
        """Return the newest change under directories of an instance."""
        with _TRANSLATED:
            return await self.helper.changes(pod, directories, uid=uid, since=since)

    async def usage(self, pod: str, uid: str, disk_gb: int) -> Usage:
        """Return the disk use of an instance as it was counted last; `disk_gb`: its limit now."""
        with _TRANSLATED:
            return await self.helper.usage(pod, uid, disk_gb=disk_gb)


class _Translated:
    """Makes of what is refused what claims know."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Refused):
            raise _KNOWN.get(error.code, Retry)(str(error)) from error


_TRANSLATED = _Translated()
