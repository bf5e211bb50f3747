"""When a tenant last did something: an annotation on its Claim, written no more than needed.

claim ─► noted, exec, attach, logs -f, files ─► busy ─► at most one write per interval ─► annotation

The first touch is written at once. Those that follow within the interval (five seconds, or a
quarter of the idle timeout if that is less) are one write at its end, with the time of the last of
them: the trailing edge is never lost, whatever stops the process in good order. It lives on the
Claim so that activity which races a decision to release makes that decision's compare-and-swap
fail; where that race may be close, whoever needs its outcome waits for the write (`noted`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, parse_time, rfc3339_micro
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.status import ApiError, Conflict, Invalid, NotFound
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim

WRITE_INTERVAL_SECONDS = 5.0  # seconds between two writes
SHORTEST = 0.25

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Pending:
    claim: Claim  # as it was touched, or as the last write left it
    at: datetime
    task: asyncio.Task[None] | None = None
    written: datetime | None = None
    tried: asyncio.Event = field(default_factory=asyncio.Event)  # to write it, once at least
    gone: bool = False


class Activity:
    """Notes activity for the claims of one namespace. One small task per claim that was touched."""

    def __init__(
        self,
        client: Client,
        claims: Informer[Claim],
        workloads: Informer[Dynamic],
        clock: Clock,
    ) -> None:
        self._client = client
        self._claims = claims
        self._workloads = workloads
        self._clock = clock
        self._pending: dict[str, _Pending] = {}  # by the claim's UID
        self._in_flight: Counter[str] = Counter()

    def touch(self, claim: Claim) -> None:
        """Note that the tenant is active now; returns at once."""
        now = self._clock.now()
        uid = claim.metadata.uid
        pending = self._pending.get(uid)
        if pending is not None:
            pending.at = now
            return
        pending = self._pending[uid] = _Pending(claim, now, written=_annotated(claim, now))
        pending.task = asyncio.create_task(self._write(pending), name=f"activity {uid}")

    def made(self, claim: Claim) -> None:
        """Note that a claim was made and answered; what it was born with says so, if it is new."""
        noted = _annotated(claim, now := self._clock.now())
        if noted is None or (now - noted).total_seconds() >= SHORTEST:
            self.touch(claim)

    async def noted(self, claim: Claim) -> Claim | None:
        """Note activity now, and return the claim as it is after that; None if it is gone.

        Far from the idle deadline nothing is waited for. Near to it the note is written first, and
        whoever decided to release the instance before that shows in what is returned.
        """
        now, timeout = self._clock.now(), self._timeout(claim)
        self.touch(claim)
        last = _annotated(claim, now)
        if not timeout or (last is not None and (now - last).total_seconds() < timeout / 2):
            return claim
        pending = self._pending[claim.metadata.uid]
        if pending.tried.is_set():  # a moment ago: the deadline is far by now
            return claim
        await pending.tried.wait()
        return None if pending.gone else pending.claim

    def in_flight(self, claim: Claim) -> int:
        """Count the calls of this process that keep the tenant active right now."""
        return self._in_flight[claim.metadata.uid]

    @asynccontextmanager
    async def busy(self, claim: Claim | None) -> AsyncIterator[None]:
        """Note activity as long as the context lasts; without a claim there is nobody to note."""
        if claim is None:
            yield
            return
        uid = claim.metadata.uid
        heart = asyncio.create_task(self._beat(claim), name=f"busy {claim.metadata.name}")
        self._in_flight[uid] += 1
        try:
            yield
        finally:
            self._in_flight[uid] -= 1
            if not self._in_flight[uid]:
                del self._in_flight[uid]
            heart.cancel()
            self.touch(claim)

    async def flush(self) -> None:
        """Write down at once what still waits for its interval."""
        tasks = []
        for pending in list(self._pending.values()):
            if pending.task is not None:
                pending.task.cancel()
                tasks.append(pending.task)
        await asyncio.gather(*tasks, return_exceptions=True)
        left, self._pending = list(self._pending.values()), {}
        for pending in left:
            if pending.written is None or pending.at > pending.written:
                await self._annotate(pending)

    async def _beat(self, claim: Claim) -> None:
        while True:
            self.touch(claim)
            await asyncio.sleep(self.interval(claim))

    def interval(self, claim: Claim) -> float:
        """Return the seconds between two writes for this claim."""
        timeout = self._timeout(claim)
        return (
            max(min(WRITE_INTERVAL_SECONDS, timeout / 4), SHORTEST)
            if timeout
            else WRITE_INTERVAL_SECONDS
        )

    def _timeout(self, claim: Claim) -> int:
        held = self._workloads.get(self._client.namespace, claim.spec.workload_ref)
        idle = (held.spec.get("idle") or {}) if held is not None else {}
        return idle.get("timeoutSeconds") or 0

    async def _write(self, pending: _Pending) -> None:
        """Write, rest for the interval, and again while there was activity meanwhile."""
        uid = pending.claim.metadata.uid
        interval = self.interval(pending.claim)
        try:
            if pending.written is not None:
                age = (self._clock.now() - pending.written).total_seconds()
                await asyncio.sleep(min(max(interval - age, 0.0), interval))
            while pending.written is None or pending.at > pending.written:
                if not await self._annotate(pending):
                    break
                pending.tried.set()
                await asyncio.sleep(interval)
        finally:
            pending.tried.set()
        self._pending.pop(uid, None)

    async def _annotate(self, pending: _Pending) -> bool:
        """Write the annotation on this very claim; False if it is gone. A failure is for later."""
        at, meta = pending.at, pending.claim.metadata
        patch = {
            # With the UID it is this claim or none: a successor of the same name starts afresh.
            "metadata": {
                "uid": meta.uid,
                "annotations": {names.LAST_ACTIVITY: rfc3339_micro(at)},
            }
        }
        try:
            pending.claim = await self._client.merge_patch(CLAIMS, meta.name, patch)
        except (NotFound, Conflict, Invalid):
            # Invalid: the name is another claim's by now, and a UID is not to be changed.
            pending.gone = True
            return False
        except ApiError as error:
            log.warning("activity.not_written", claim=meta.name, error=str(error))
            return error.status_code >= 500  # what is refused today is refused tomorrow
        self._claims.observe(pending.claim)
        pending.written = at
        return True


def _annotated(claim: Claim, now: datetime) -> datetime | None:
    """When activity was last noted. What lies ahead was noted by a clock that was wrong."""
    try:
        noted = parse_time(claim.metadata.annotations.get(names.LAST_ACTIVITY, ""))
    except ValueError:
        return None
    return noted if noted <= now else None
