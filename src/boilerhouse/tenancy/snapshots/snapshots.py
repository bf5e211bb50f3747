"""What operator and API ask about snapshots, through the helper.

SnapshotClient ─► Asking ─► helper ─► store on the volume, agent of the instance

Errors are those of `asking.py`: `HelperUnavailable` and `AgentUnavailable` (both `Retry`), and
`Refused` with its status and code: 404 no-such-version, 409 corrupt-version, 507 volume-full …
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import State
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.layout import HEALTHZ, TO_AGENT
from boilerhouse.node.helper.wire import (
    KEEP,
    Mode,
    Page,
    PromoteOrder,
    Restored,
    RestoreOrder,
    Saved,
    SaveOrder,
    Version,
)
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Body, Handler
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.asking import Asking, HelperUnavailable, Query, read

STILL_RUNNING = 202  # come again, and be told how it ended


class SnapshotClient:
    """The stored snapshots, and the two ways between them and an instance.

    An instance is named by its Pod's name and UID. Every call may be made again.
    """

    def __init__(self, client: Client, route: Handler, agents: Agents) -> None:
        self._asking = Asking(client, route, agents)

    async def current(self, tenant: str, workload: str, *, claim: bool = False) -> Version | None:
        """Return what a claim would restore; None if nothing is stored. Cheap.

        `claim`: one does, so what is being uploaded meanwhile is refused in the end.
        """
        query = [("tenant", tenant), ("workload", workload)]
        if claim:
            query.append(("claim", "true"))
        found = await self._asking.whole("GET", wire.CURRENT, query)
        return Version.decode(found) if found else None

    async def check(self) -> None:
        """Raise `HelperUnavailable` unless the helper runs and can use its volume."""
        await self._asking.whole("GET", HEALTHZ)

    async def save(
        self,
        pod: str,
        uid: str,
        *,
        tenant: str,
        workload: str,
        base: str,
        keep: int = KEEP,
        epoch: int = 0,
        clean: bool = False,
        halting: Callable[[], None] = lambda: None,
    ) -> Saved:
        """Store the instance's overlays; returns once they are durable and verified.

        `base`: the digest that the instance started from, or "". `epoch`: an agent refuses orders
        with a lower one than it has heard of; 0 is none. `clean`: it started without the files of
        `base`, which are kept then, however many versions follow. Afterwards the tenant is frozen;
        after an error it runs on, unless nobody can tell. `halting` is called once if it does not
        come to rest soon.
        """
        order = SaveOrder(tenant, workload, uid, base, keep, epoch, int(clean))
        return Saved.decode(await self._long(wire.SAVE, order.encode(), pod, uid, halting))

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> Restored:
        """Put a stored version into the instance, once; `Restored.already` if it was there.

        `Refused`: 404 no-such-version, 409 corrupt-version, 409 restored-already (another one).
        """
        order = RestoreOrder(tenant, workload, uid, digest, mode)
        return Restored.decode(await self._long(wire.RESTORE, order.encode(), pod, uid))

    async def thaw(self, pod: str, uid: str, *, epoch: int = 0) -> None:
        """Let the tenant's processes run on; 409 if a newer order has arrived, see `save`."""
        query = [("round", str(epoch))]
        await self._asking.whole("POST", TO_AGENT + protocol.THAW, query, pod=pod, uid=uid)

    async def state(self, pod: str, uid: str) -> State:
        """Return where the instance's agent stands: what was restored, whether it is halted."""
        body = await self._asking.whole("GET", TO_AGENT + protocol.STATE, pod=pod, uid=uid)
        return State.decode(body)

    async def list(
        self, *, tenant: str = "", workload: str = "", versions: bool = False
    ) -> list[Version]:
        """Return the current versions, or all; of one tenant or workload if it is named."""
        given = [("tenant", tenant), ("workload", workload), ("versions", str(versions).lower())]
        query = [(name, value) for name, value in given if value]
        found: list[Version] = []
        more = ""
        while True:
            after = [("after", more)] if more else []
            body = await self._asking.whole("GET", wire.SNAPSHOTS, query + after)
            page = Page.decode(body)
            found += page.items
            more = page.more
            if not more:
                return found

    @asynccontextmanager
    async def open_archive(
        self, tenant: str, workload: str, seq: int | None = None
    ) -> AsyncGenerator[tuple[Version, Body]]:
        """Open a stored archive, the current one unless `seq` says another.

        Bytes that are not what was stored are 409 corrupt-version, or break off midway with
        `HelperUnavailable`: never a short or wrong archive that looks like a good one.
        """
        answer = await self._asking.open("GET", wire.ARCHIVE, _which(tenant, workload, seq))
        try:
            yield Version.decode(answer.headers[wire.VERSION].encode()), answer.body
        except Broken as error:
            raise HelperUnavailable(str(error)) from error
        finally:
            await answer.body.close()

    async def put(
        self,
        tenant: str,
        workload: str,
        body: Body,
        *,
        expect: str | None = None,
        keep: int = KEEP,
        disk: int = 0,
        overlays: Sequence[str] = (),
    ) -> tuple[Version, bool]:
        """Import an archive as the new current version; `disk` is the workload's, in GiB.

        False: these very bytes are current already, and nothing was stored.
        409 in-use if a claim has asked for `current` meanwhile.
        With `expect` only if current has this digest ("": if there is none); else 409 changed.
        `overlays` are the workload's: what could not be restored into them is 422 bad-archive, and
        422 nothing-to-restore if no entry is in any. Without them that is not judged.
        """
        query = [("tenant", tenant), ("workload", workload), ("keep", str(keep))]
        query += [("overlay", path) for path in overlays]
        if disk:
            query.append(("disk", str(disk)))
        if expect is not None:
            query.append(("expect", expect))
        answer = await self._asking.open("PUT", wire.ARCHIVE, query, body)
        return Version.decode(await read(answer)), answer.status == wire.MADE

    async def delete(self, tenant: str, workload: str, seq: int | None = None) -> None:
        """Remove everything that is stored, or one version; 409 if that is the current one."""
        await self._asking.whole("DELETE", wire.SNAPSHOTS, _which(tenant, workload, seq))

    async def promote(
        self, tenant: str, workload: str, seq: int, *, keep: int = KEEP
    ) -> tuple[Version, bool]:
        """Make a stored version's content the new current version; False if it is already."""
        order = Body(PromoteOrder(tenant, workload, seq, keep).encode())
        answer = await self._asking.open("POST", wire.PROMOTE, body=order)
        return Version.decode(await read(answer)), answer.status == wire.MADE

    async def _long(
        self,
        path: str,
        order: bytes,
        pod: str,
        uid: str,
        halting: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Ask for what takes its time: the helper works on, however often it is asked how far."""
        query: Query = [(wire.HALTING, "tell")]
        while True:
            answer = await self._asking.open("POST", path, query, Body(order), pod=pod, uid=uid)
            body = await read(answer)
            if answer.status != STILL_RUNNING:
                return body
            if protocol.HALTING in answer.headers and query:
                query = ()  # once is enough
                halting()


def _which(tenant: str, workload: str, seq: int | None) -> Query:
    query = [("tenant", tenant), ("workload", workload)]
    return query if seq is None else [*query, ("seq", str(seq))]
