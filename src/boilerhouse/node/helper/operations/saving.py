"""One save: what is said to the agent, and when the store commits.

POST /save ─► stream ─► volume ─► GET /save: stable? the same hash? ─► commit ─► POST /saved
                 └─► unchanged: nothing is written ────────────────────────────────┘

Only when the agent has taken the last word is a save a success: an agent that gave up waiting has
let its tenant run, and what that tenant wrote since would die with the Pod. A failure lets the
tenant run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

from boilerhouse.core.clock import token
from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import SaveReport, Unchanged
from boilerhouse.node.helper.agentline import AgentLine, read_small, unreachable
from boilerhouse.node.helper.operations import jobs
from boilerhouse.node.helper.operations.transfer import Threads, receive
from boilerhouse.node.helper.store import rules
from boilerhouse.node.helper.store.manifest import Shelf
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store, saved
from boilerhouse.node.helper.store.volume import Incoming
from boilerhouse.node.helper.wire import Saved, SaveOrder
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Answer
from boilerhouse.platform.rpc.refusal import JSON, Refused

log = logging.getLogger(__name__)

TRIES = 3  # for a tree that keeps changing

_FREEZE = 120.0  # seconds for the agent to halt the tenant and look at everything
_RESTLESS = 0.5  # seconds after which it is asked whether the tenant stands still
_REPORT = 120.0  # to look at everything again
_WORD = 20.0
_ASK_AGAIN = 0.05


class Saver:
    """Saves instances into the store."""

    def __init__(self, store: Store, threads: Threads) -> None:
        self._store = store
        self._threads = threads

    async def save(
        self, agent: AgentLine, where: Place, order: SaveOrder, place: jobs.Place
    ) -> Saved:
        """Save; returns when it is durable, verified, and the agent knows.

        While the tenant does not come to rest the job leaves its place to others.
        """
        try:
            for _ in range(TRIES):
                done = await self._try(agent, where, order, place)
                if done is not None:
                    return done
            raise Refused(
                409, "not-stable", f"files kept changing while they were read, {TRIES} times"
            )
        except (Refused, OSError):
            # The agent itself thaws its tenant if it hears nothing more: this is only sooner.
            with contextlib.suppress(Refused):
                number = ("round", str(order.round))
                await agent.told(bytes, "POST", protocol.THAW, number, patience=_WORD)
            raise

    async def _try(
        self, agent: AgentLine, where: Place, order: SaveOrder, place: jobs.Place
    ) -> Saved | None:
        """Save once; None if that must be repeated."""
        shelf = await self._threads.run(self._store.shelf, where)
        known = rules.known(shelf, order.base, order.pod)
        identifier = token(24).encode().hex()[:32]
        query = (
            ("id", identifier),
            ("known", "" if known is None else known.digest),
            ("round", str(order.round)),
        )
        answer = await _at_rest(agent, query, place)
        if answer.headers.get("content-type") == JSON:
            digest = (await read_small(answer, Unchanged.decode)).digest
            shelf = await self._threads.run(self._store.shelf, where)
            stored = shelf.newest(digest)
            if stored is None:
                return None  # removed meanwhile: the next try will not know it either
            done = saved(stored, current=stored.digest == _current(shelf), unchanged=True)
        else:
            incoming = await self._threads.run(self._store.incoming)
            try:
                try:
                    await receive(answer.body, incoming, self._threads)
                except (Broken, TimeoutError) as error:
                    raise await _why_not(agent, identifier, error) from error
                finally:
                    await answer.body.close()
                report = await _report(agent, identifier)
                if not report.stable:
                    return None
                done = await self._commit(where, order, incoming, report)
            finally:
                await asyncio.to_thread(incoming.discard)
        await _confirm(agent, identifier, done.digest)
        return done

    async def _commit(
        self, where: Place, order: SaveOrder, incoming: Incoming, report: SaveReport
    ) -> Saved:
        if (report.sha256, report.size) != (incoming.digest, incoming.size):
            raise Refused(502, "agent-unreachable", "other bytes arrived than the agent sent")
        await self._threads.run(incoming.settle)
        done = await self._threads.run(
            self._store.save,
            where,
            incoming,
            entries=report.entries,
            content=report.content,
            base=order.base,
            pod=order.pod,
            keep=order.keep,
            side_version=report.torn,
            clean=order.clean == 1,
        )
        return replace(done, skipped=report.skipped)


async def _at_rest(
    agent: AgentLine, query: tuple[tuple[str, str], ...], place: jobs.Place
) -> Answer:
    """Ask for the stream, which begins when the tenant is halted and was looked at."""
    asking = asyncio.create_task(
        agent.ask("POST", protocol.SAVE, *query, patience=_FREEZE), name="save begins"
    )
    try:
        while not (await asyncio.wait({asking}, timeout=_RESTLESS))[0]:
            if await _is_halting(agent):
                place.leave()
        await place.take()
    except BaseException:
        asking.cancel()
        await asyncio.wait({asking})
        if not asking.cancelled() and asking.exception() is None:
            await asking.result().body.close()
        raise
    return asking.result()


async def _is_halting(agent: AgentLine) -> bool:
    """Ask an agent that takes long whether its tenant does, or looking at its files."""
    with contextlib.suppress(Refused):
        answer = await agent.ask("GET", protocol.STATE, patience=_WORD)
        await answer.body.close()
        return protocol.HALTING in answer.headers
    return False


def _current(shelf: Shelf) -> str:
    return shelf.current.digest if shelf.current is not None else ""


async def _report(agent: AgentLine, identifier: str) -> SaveReport:
    """Ask what was sent, until the agent has looked at everything again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REPORT):
            while True:
                try:
                    return await agent.told(
                        SaveReport.decode,
                        "GET",
                        protocol.SAVE,
                        ("id", identifier),
                        patience=_REPORT,
                    )
                except Refused as refused:
                    if refused.code != "save-running":
                        raise
                await asyncio.sleep(_ASK_AGAIN)
    raise unreachable(TimeoutError("it does not come to the end of its save"))


async def _why_not(agent: AgentLine, identifier: str, broken: Exception) -> Refused:
    """Ask an agent whose stream broke off what went wrong; if it cannot tell, it is unreachable."""
    try:
        query = ("id", identifier)
        await agent.told(SaveReport.decode, "GET", protocol.SAVE, query, patience=_WORD)
    except Refused as refused:
        if refused.code == protocol.SAVE_FAILED:
            return Refused(422, refused.code, str(refused))
    return unreachable(broken)


async def _confirm(agent: AgentLine, identifier: str, digest: str) -> None:
    """Tell the agent that it is safe; once more if nobody answers."""
    query = (("id", identifier), ("digest", digest))
    try:
        await agent.told(bytes, "POST", protocol.SAVED, *query, patience=_WORD)
    except Refused as refused:
        if refused.code != "agent-unreachable":
            raise
        await agent.told(bytes, "POST", protocol.SAVED, *query, patience=_WORD)
