"""Writes post-mortems down, tells of deaths as Events, and sweeps what is old.

Pod informer ─► death? ─► log of that life ─► Secret postmortem-<pod> ─► Event
Secret informer ─► decide ─► the five youngest of a tenant and workload, for seven days

Best effort by nature: a node that is gone has no log to give, and then the report says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from boilerhouse.core import names
from boilerhouse.core.clock import Clock, parse_time, rfc3339
from boilerhouse.core.plan import Wait
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Bare, Pod
from boilerhouse.platform.kube.resources import PODS, SECRET_NAMES, SECRETS, Key, key_of
from boilerhouse.platform.kube.status import AlreadyExists, ApiError
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.instances.build import TENANT_CONTAINER
from boilerhouse.tenancy.instances.seen import ClaimRef
from boilerhouse.tenancy.postmortems import build
from boilerhouse.tenancy.postmortems.deaths import Death, death_of, may_have_died
from boilerhouse.tenancy.postmortems.decide import Plan, Seen
from boilerhouse.tenancy.postmortems.model import (
    DEATH,
    DIED_AT,
    LOG_LINES,
    MESSAGE_CHARACTERS,
    Report,
    secret_name,
)

log = structlog.get_logger(__name__)

_LOG_LIMIT = 4 << 20  # of its end, before it is known which lines are of the life that ended


@dataclass(frozen=True, slots=True)
class Dead:
    """An instance as it was when its death was noticed."""

    pod: Pod
    claim: str
    death: Death
    known: bool  # it is written down already


class PostMortems:
    """Deaths, and what was `written` of them: reads and applies for two controllers."""

    def __init__(
        self,
        client: Client,
        *,
        pods: Informer[Pod],
        claims: Informer[Claim],
        written: Informer[Bare],
        events: Events,
        clock: Clock,
    ) -> None:
        self.pods = pods
        self.written = written
        self._client = client
        self._writer = Writer(client, SECRET_NAMES, written)
        self._claims = claims
        self._events = events
        self._clock = clock
        self._noticed: dict[Key, tuple[Pod, str, Death]] = {}  # until it is written, by any replica
        self._by_tenancy = written.index(lambda secret: [_tenancy(secret)])

    def noticed(self) -> set[Key]:
        """Return the instances that have died, or may have, and of which nothing is written."""
        return {*self._noticed, *(k for k, p in self.pods.cache.items() if may_have_died(p))}

    def died(self, change: Change[Pod]) -> Iterable[Key]:
        """Notice a death at once: a moment later the claim is Releasing, and the Pod is gone."""
        pod = change.new
        if pod is not None and may_have_died(pod) and self._notice(change.key, pod):
            yield change.key

    def _notice(self, key: Key, pod: Pod) -> bool:
        ref = ClaimRef.parse(pod.metadata.annotations.get(names.CLAIM, ""))
        claim = None if ref is None else self._claims.get(key.namespace, ref.name)
        if claim is None or ref is None or claim.metadata.uid != ref.uid:
            return False
        death = death_of(pod, claim)
        written = self.written.get(key.namespace, secret_name(key.name))
        if death is None or (written is not None and _is_of(written, death)):
            return False
        self._noticed[key] = (pod, ref.name, death)
        return True

    async def read_death(self, key: Key) -> Dead | None:
        if key not in self._noticed:
            pod = self.pods.cache.get(key)
            if pod is None or not self._notice(key, pod):
                return None
        pod, claim, death = self._noticed[key]
        written = await self._client.find(SECRET_NAMES, secret_name(key.name))
        return Dead(pod, claim, death, known=written is not None and _is_of(written, death))

    async def write(self, key: Key, dead: Dead, wanted: bool) -> timedelta | None:
        if wanted:
            written, missing = await self._log(dead)
            kept, cut = build.ending(written)
            report = self._report(dead, missing, cut)
            body = build.secret(report, kept, dead.death.number)
            try:
                await self._client.create(SECRETS, body)
            except AlreadyExists:
                await self._client.replace(SECRETS, body)
            self._tell(dead, report)
        noticed = self._noticed.get(key)
        if noticed is not None and noticed[2] == dead.death:
            del self._noticed[key]
        return None

    async def _log(self, dead: Dead) -> tuple[bytes, str]:
        """Return what the program wrote in the life that ended, or why that cannot be known.

        The next life may have begun, or not: so both logs are asked for, and times tell.
        """
        logs: list[bytes] = []
        missing = ""
        for previous in (True, False):
            try:
                written = await self._client.pods.log(
                    dead.pod.metadata.name,
                    container=TENANT_CONTAINER,
                    tail=LOG_LINES + 1,  # one more shows that there were more
                    timestamps=True,
                    previous=previous,
                    limit=_LOG_LIMIT,
                )
                if written not in logs:  # while the next life is waited for, both are the last
                    logs.append(written)
                missing = ""
            except ApiError as error:
                if not previous:
                    missing = error.message or "the node does not answer"
        return build.of_life(b"".join(logs), dead.death.began, dead.death.at), missing

    def _report(self, dead: Dead, missing: str, cut: bool) -> Report:
        pod, death = dead.pod, dead.death
        meta = pod.metadata
        restarts = sum(
            one.restart_count
            for one in pod.status.container_statuses
            if one.name == TENANT_CONTAINER
        )
        return Report(
            instance=meta.name,
            tenant_id=meta.annotations.get(names.TENANT_ID, ""),
            workload_ref=meta.labels.get(names.WORKLOAD, ""),
            claim=dead.claim,
            died_at=rfc3339(death.at or self._clock.now()),
            reason=death.reason,
            message=death.message[:MESSAGE_CHARACTERS],
            exit_code=death.exit_code,
            restarts=restarts,
            node=pod.spec.node_name,
            log_missing=missing[:MESSAGE_CHARACTERS],
            log_truncated=cut,
        )

    def _tell(self, dead: Dead, report: Report) -> None:
        code = "" if report.exit_code is None else f", exit code {report.exit_code}"
        log.info("instance.died", pod=report.instance, reason=report.reason, code=report.exit_code)
        words = f"{report.reason}{code}: the end of its log is in {secret_name(report.instance)}"
        self._events.tell(PODS, dead.pod, "InstanceDied", words, type="Warning")

    # What was written

    def written_changed(self, change: Change[Bare]) -> Iterable[Key]:
        """What was written of a tenant and workload may be too much; and is written."""
        secret = change.new or change.old
        assert secret is not None, "a change is of something"
        for sibling in self._by_tenancy.get(_tenancy(secret)):
            yield key_of(sibling)
        # In replicas that do not lead this is all that ends the waiting for their turn to write.
        for key, (_, _, death) in list(self._noticed.items()):
            if _is_of(secret, death):
                del self._noticed[key]

    async def read_written(self, key: Key) -> Seen | None:
        held = self.written.cache.get(key)
        if held is None:
            return None
        meta = held.metadata
        siblings = self._by_tenancy.get(_tenancy(held))
        mine = _standing(held)
        return Seen(
            now=self._clock.now(),
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            died_at=parse_time(_died_at(held)),
            younger=sum(_standing(other) > mine for other in siblings),
        )

    async def sweep(self, key: Key, seen: Seen, plan: Plan) -> timedelta | None:
        if isinstance(plan, Wait):
            return plan.again_in
        await self._writer.delete(seen)
        return None


def _is_of(secret: Bare, death: Death) -> bool:
    return secret.metadata.annotations.get(DEATH) == death.number


def _tenancy(secret: Bare) -> tuple[str, str]:
    meta = secret.metadata
    return meta.annotations.get(names.TENANT_ID, ""), meta.labels.get(names.WORKLOAD, "")


def _died_at(secret: Bare) -> str:
    """Return when it died: as was written, or if somebody took that off, when it was written."""
    meta = secret.metadata
    assert meta.creation_timestamp is not None, "a stored object has a creation time"
    written = meta.annotations.get(DIED_AT, "")
    with contextlib.suppress(ValueError):
        parse_time(written)
        return written
    return rfc3339(meta.creation_timestamp)


def _standing(secret: Bare) -> tuple[str, str]:
    return _died_at(secret), secret.metadata.name
