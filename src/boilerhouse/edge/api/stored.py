"""What handlers of stored snapshots share: how one looks, whose it is, whether it may be changed.

caller's body ─► Upload ─► SnapshotClient ─► helper ─► store
Version ─► Snapshot ─► JSON

What is stored may be exchanged only while nobody works on it: an instance that is saved afterwards
would not know of the exchange, and its files would end beside what was put, not in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from litestar.exceptions import HTTPException

from boilerhouse.core import names
from boilerhouse.edge.api.auth import Call
from boilerhouse.edge.api.errors import Problem, conflict
from boilerhouse.edge.api.hangup import HungUp
from boilerhouse.edge.api.services import Services
from boilerhouse.edge.api.views import View
from boilerhouse.node.helper.wire import KEEP, Version
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.rpc.message import Body
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient

UPLOAD_LIMIT = 16 << 30  # bytes of an archive that is put
LINGER = 2.0  # seconds that the rest of a refused one may take
CURRENT = "current"  # instead of a number: the version that a claim restores

# A claim in one of these has an instance, or may have one in a moment.
_AT_WORK = frozenset(ClaimPhase) - {ClaimPhase.RELEASED, ClaimPhase.ERROR}


class Snapshot(View, frozen=True):
    """A stored version (S3: tenantId, workloadRef, path; and what else is known of it)."""

    tenant_id: str
    workload_ref: str
    path: str
    version: int
    digest: str
    size: int  # bytes of the archive
    created_at: str
    current: bool
    kind: str  # save, import, restore or side
    entries: int | None = None
    content: int | None = None  # bytes of the files in it
    base: str | None = None
    pod: str | None = None
    exempt: bool | None = None


def shown(version: Version) -> Snapshot:
    """Show a version; what nobody counted is left out."""
    return Snapshot(
        tenant_id=version.tenant,
        workload_ref=version.workload,
        path=version.path,
        version=version.seq,
        digest=version.digest,
        size=version.size,
        created_at=version.created_at,
        current=version.current,
        kind=version.kind,
        entries=version.entries or None,
        content=version.content or None,
        base=version.base or None,
        pod=version.pod or None,
        exempt=version.exempt or None,
    )


def snapshots_of(services: Services) -> SnapshotClient:
    if services.snapshots is None:
        raise Problem(503, "HelperUnavailable", "there is no snapshot helper to ask")
    return services.snapshots


def version_number(text: str) -> int | None:
    """Read which version is meant; None is the current one."""
    if text == CURRENT:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Problem(400, "BadRequest", f"a version is a number or `{CURRENT}`, not {text!r}")
    return int(text)


async def keep_of(services: Services, workload: str) -> int:
    """Return how many versions the workload keeps; the usual number if it is gone."""
    try:
        spec = (await services.workload(workload)).spec
    except Problem:
        return KEEP
    kept = (spec.get("filesystem") or {}).get("keepVersions")
    return kept if isinstance(kept, int) else KEEP


def disk_of(workload: Dynamic) -> int:
    """Return the disk of a workload's instances, in GiB; 0 if it does not say."""
    disk = (workload.spec.get("resources") or {}).get("diskGb")
    return disk if isinstance(disk, int) else 0


def overlays_of(workload: Dynamic) -> list[str]:
    """Return the directories that an archive can be restored into; 422 if there are none."""
    found = (workload.spec.get("filesystem") or {}).get("overlayDirs")
    if not isinstance(found, list) or not found:
        message = (
            f"workload {workload.metadata.name!r} has no filesystem.overlayDirs: nothing of an"
            " archive could be restored into its instances"
        )
        raise Problem(422, "NothingToRestore", message)
    return [str(path) for path in found]


async def require_unused(services: Services, tenant: str, workload: str) -> None:
    """Refuse with 409 while the tenant has an instance of the workload; the server is asked."""
    for claim in await services.operator.holdings.find(tenant, workload):
        if phase_of(claim) in _AT_WORK:
            raise _in_use(tenant, workload, f"its claim is {phase_of(claim)}")
    labels = {
        names.MANAGED: "true",
        names.WORKLOAD: workload,
        names.TENANT: names.label_value(tenant),
    }
    for pod in (await services.client.list(PODS, labels=labels)).items:
        if pod.metadata.annotations.get(names.TENANT_ID) == tenant:
            raise _in_use(tenant, workload, f"instance {pod.metadata.name} is still there")


@contextlib.contextmanager
def unless_claimed(tenant: str, workload: str) -> Iterator[None]:
    """Make what the helper refuses, since a claim came while it was at it, the same 409."""
    try:
        yield
    except Refused as refused:
        if refused.code == "in-use":
            raise _in_use(tenant, workload, "it was claimed meanwhile") from refused
        raise


def _in_use(tenant: str, workload: str, why: str) -> Problem:
    message = f"{tenant!r} is using {workload!r} ({why}): release it first"
    return conflict("SnapshotInUse", message, {"tenantId": tenant, "workloadRef": workload})


def no_snapshot(tenant: str, workload: str) -> Problem:
    message = f"nothing is stored of tenant {tenant!r} and workload {workload!r}"
    return Problem(404, "SnapshotNotFound", message)


class Upload(Body):
    """A request's body on its way through, never held as a whole.

    `once_more` is asked when all of it has come: it may have taken minutes, and whoever it is for
    may hear of it only then. What that raises is raised here.
    """

    def __init__(self, request: Call, once_more: Callable[[], Awaitable[None]]) -> None:
        self.length = request.content_length
        if self.length is not None and self.length > UPLOAD_LIMIT:
            raise _too_large()
        self._request = request
        self._once_more = once_more
        self._pieces = request.stream()
        self._left = UPLOAD_LIMIT
        # Whoever waits for a word before it sends sends nothing if that word is a refusal.
        self._coming = "expect" not in request.headers

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = b""
        self._coming = True
        while not piece:  # the last of them is always empty
            try:
                piece = await anext(self._pieces)
            except StopAsyncIteration:
                await self._once_more()
                raise
            except HTTPException:
                raise HungUp from None
        self._left -= len(piece)
        if self._left < 0:
            raise _too_large()
        return piece

    async def let_come(self) -> None:
        """Take what is still coming, for a moment, before a refusal is answered.

        Most callers send everything before they listen. Theirs would be a connection that was
        reset, and no answer.
        """
        if not self._coming or UPLOAD_LIMIT - self._left == self.length:
            return
        # Not by way of `_pieces`: they are at their end if whoever took them was cut off.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while self._request.is_connected:
                    event = await self._request.receive()
                    if event["type"] != "http.request" or not event.get("more_body"):
                        return

    async def close(self) -> None:
        await self._pieces.aclose()


def _too_large() -> Problem:
    return Problem(413, "TooLarge", f"an archive may have {UPLOAD_LIMIT >> 30} GiB")
