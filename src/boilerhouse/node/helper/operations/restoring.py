"""One restore: a stored version into an instance.

version by digest ─► ArchiveBody ─► POST /restore ─► Restored
"""

from __future__ import annotations

from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import RestoreReport
from boilerhouse.node.helper.agentline import AgentLine, read_small
from boilerhouse.node.helper.operations.transfer import ArchiveBody, Threads
from boilerhouse.node.helper.store.intact import corrupt
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.wire import Restored, RestoreOrder
from boilerhouse.platform.rpc.refusal import Refused

_UNPACK = 300.0  # seconds after the last byte, for the agent to sync and look at everything


# Of these an agent may be sure before it has seen everything, so before we have.
_OF_THE_BYTES = ("bad-archive", "too-large")


class Restorer:
    """Restores versions of the store into instances."""

    def __init__(self, store: Store, threads: Threads) -> None:
        self._store = store
        self._threads = threads

    async def restore(self, agent: AgentLine, where: Place, order: RestoreOrder) -> Restored:
        """Restore; `Refused` (409 corrupt-version) if the stored bytes are not what they were.

        Bytes that an agent refuses although they are: 422 bad-archive, 413 too-large.
        """
        file, version = await self._threads.run(self._store.open_digest, where, order.digest)
        body = ArchiveBody(file, version, self._threads)
        try:
            if body.corrupt:
                raise corrupt(version)
            answer = await agent.ask(
                "POST",
                protocol.RESTORE,
                ("digest", order.digest),
                ("mode", order.mode),
                body=body,
                patience=_UNPACK,
            )
            report = await read_small(answer, RestoreReport.decode)
        except Refused as refused:
            if body.corrupt:
                raise corrupt(version) from None
            if refused.code in _OF_THE_BYTES:
                await self._threads.run(self._store.require_intact, where, order.digest)
            raise
        finally:
            await body.close()
        if report.skipped:
            # What was left out exists in this version alone.
            await self._threads.run(self._store.exempt, where, order.digest)
        return Restored(order.digest, report.already, report.skipped, report.container)
