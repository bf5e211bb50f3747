"""What a process remembers of its claims between two passes: the results of steps.

step ─► Memory ─► next Seen

Losing it costs a repeated step and nothing else (design rule 1: steps are idempotent). Each result
is remembered together with what it is of (a claim's UID, a life of a Pod, a round), and is known
for exactly that.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from boilerhouse.core.clock import Clock, Random
from boilerhouse.core.stepfailure import StepFailure
from boilerhouse.node.agent.disk.limit import Shortage
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.stepfailures import StepFailures
from boilerhouse.tenancy.claims.deciding.epochs import release_of
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.seen import ClaimSeen, LookUpSnapshot, Save, SavedSeen, UsageSeen
from boilerhouse.tenancy.idle.verdict import ChangesSeen
from boilerhouse.tenancy.instances.seen import InstanceSeen

LIMIT = 20_000
# Times the usual pause between two tries to save: the three of a round outlast a restart of the
# helper, some seconds.
SAVING = 10.0
USAGE_PERIOD = 30.0  # seconds between two looks at an instance's disk use
USAGE_PERIOD_FULL = 5.0  # the same while it is frozen: a larger diskGb comes with the question
USAGE_SOON = 1.0  # the same while the Pod and the agent's last answer disagree

V = TypeVar("V")


class Results(Generic[V]):
    """One result per claim, and what it is of."""

    def __init__(self) -> None:
        self._noted: OrderedDict[Key, tuple[str, V]] = OrderedDict()

    def note(self, key: Key, of: str, value: V) -> None:
        self._noted[key] = of, value
        self._noted.move_to_end(key)
        if len(self._noted) > LIMIT:
            self._noted.popitem(last=False)

    def get(self, key: Key, of: str) -> V | None:
        noted = self._noted.get(key)
        return noted[1] if noted is not None and noted[0] == of else None

    def newest(self, key: Key) -> V | None:
        """Return the result, of whatever it is."""
        return self._noted.get(key, ("", None))[1]

    def forget(self, key: Key) -> None:
        self._noted.pop(key, None)


class _Looked(NamedTuple):
    """What an agent told of its instance's disk; at and due: by the monotonic clock."""

    full: str | None
    over: bool
    unlinked: bool
    at: float
    due: float


class Memory:
    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self.failures: StepFailures[Key] = StepFailures(clock, rng)
        self.sole: Results[bool] = Results()  # of `looked_at`
        self.delivered: Results[bool] = Results()  # of a life of the agent
        self.stored: Results[str] = Results()  # of the claim's UID
        self.unanswered: Results[bool] = Results()  # of the claim's UID
        self.corrupt: Results[str] = Results()  # of the claim's UID
        self.previous: Results[str] = Results()  # of the digest of a bad version
        self.skipped: Results[tuple[str, ...]] = Results()  # of the Pod's UID
        self.hooked: Results[bool] = Results()  # of `turn_of`
        self.saved: Results[SavedSeen] = Results()  # of `frozen_as`
        self.thawed: Results[bool] = Results()  # of `frozen_as`
        self.changes: Results[ChangesSeen] = Results()  # of the Pod's UID
        self._usage: Results[_Looked] = Results()  # of the Pod's UID
        self._failing: Results[bool] = Results()  # of `_failing_at`

    def failure(self, key: Key, claim: ClaimSeen) -> StepFailure | None:
        """Return how the claim's step failed, in this round and with this version of its files."""
        failure = self.failures.of(key)
        if failure is None or not self._failing.get(key, _failing_at(claim)):
            return None
        return failure

    def fail(
        self, key: Key, claim: ClaimSeen | None, step: str, why: str, *, refused: bool
    ) -> None:
        """A step failed. What was refused stays refused, whatever else fails beside it."""
        if claim is not None:
            before = self.failure(key, claim)
            if before is None:
                self.failures.clear(key)
            elif before.refused and before.step != step and not refused:
                return
            self._failing.note(key, _failing_at(claim), True)
        saving = step == Save.__name__ or (
            # What a save must know first waits for the same helper.
            step == LookUpSnapshot.__name__
            and claim is not None
            and claim.status.phase == ClaimPhase.RELEASING
        )
        longer = SAVING if saving else 1.0
        self.failures.note(key, step, why, refused=refused, longer=longer)

    def usage(self, key: Key, pod: InstanceSeen, *, was_full: bool = False) -> UsageSeen:
        """Return the last known disk use; the first look comes some time after the first sight.

        Sooner if the Pod says that its tenant is frozen, or not, and the agent said otherwise. At
        once if the claim says so since an earlier operator (`was_full`): it may have started anew.
        """
        now = self._clock.monotonic()
        noted = self._usage.get(key, pod.uid)
        if noted is None:
            period = USAGE_PERIOD * self._rng.uniform(0.5, 1.0)
            noted = _Looked(None, False, False, now - USAGE_SOON, now + period)
            self._usage.note(key, pod.uid, noted)
        due = noted.due
        unknown = noted.full is None
        if Shortage.freezes(noted.full) == pod.agent_ready or (unknown and was_full):
            due = min(due, noted.at + USAGE_SOON)
        return UsageSeen(timedelta(seconds=due - now), noted.full, noted.over, noted.unlinked)

    def note_usage(
        self,
        key: Key,
        pod: InstanceSeen,
        full: str | None,
        *,
        over: bool = False,
        unlinked: bool = False,
    ) -> None:
        """Note an answer; None: there was none, and what was known before holds."""
        before = self._usage.get(key, pod.uid) if full is None else None
        if before is not None:
            full, over, unlinked = before.full, before.over, before.unlinked
        now = self._clock.monotonic()
        due = now + (USAGE_PERIOD_FULL if full or over else USAGE_PERIOD)
        self._usage.note(key, pod.uid, _Looked(full, over, unlinked, now, due))

    def try_again(self, key: Key) -> None:
        """Somebody wants it tried now, whatever failed before."""
        self.failures.clear(key)
        self.corrupt.forget(key)

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self.failures.clear(key)
        for table in vars(self).values():
            if isinstance(table, Results):
                table.forget(key)


def looked_at(claim: ClaimSeen) -> str:
    """Say for how long "nobody else" holds: a canonical claim's for ever, another's at a version.

    `rivals.py` says why.
    """
    return claim.uid if claim.canonical else f"{claim.uid} at {claim.version}"


def turn_of(pod: InstanceSeen, turn: str) -> str:
    """Say what a hook has run for."""
    return f"{pod.uid}/{turn}"


def frozen_as(pod: InstanceSeen, number: int) -> str:
    """Say what was saved, or thawed: a life of the Pod, in a round."""
    return f"{pod.incarnation}/{number}"


def _failing_at(claim: ClaimSeen) -> str:
    """Say what a failure is of: one version that could not be restored says nothing of another."""
    refs = claim.status.snapshot
    version = "" if refs is None else refs.restored
    return f"{claim.uid}/{release_of(claim.status).epoch}/{version}"
