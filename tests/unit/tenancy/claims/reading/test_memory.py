"""What a process remembers of its claims."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.clock import FakeClock, new_rng
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.model import ClaimStatus, Release, SnapshotRefs
from boilerhouse.tenancy.claims.reading.memory import (
    LIMIT,
    SAVING,
    USAGE_PERIOD,
    USAGE_PERIOD_FULL,
    USAGE_SOON,
    Memory,
    Results,
    looked_at,
)
from boilerhouse.tenancy.claims.seen import UsageSeen
from tests.unit.tenancy.claims.views import bound, claim

KEY = Key("sim", "claim")


def memory() -> Memory:
    return Memory(FakeClock(), new_rng(1))


def test_a_canonical_claim_is_sole_for_ever() -> None:
    """Whoever comes later finds it by its name."""
    assert looked_at(claim()) == looked_at(claim(version="99"))
    assert looked_at(claim()) != looked_at(claim(uid="another"))


def test_another_name_is_sole_at_one_version_only() -> None:
    """It may have yielded since."""
    mine = claim(name="mine")
    assert looked_at(mine) == looked_at(replace(mine))
    assert looked_at(mine) != looked_at(replace(mine, version="8"))


def test_a_result_is_of_one_thing() -> None:
    """What was found out about one life of an instance says nothing about the next."""
    results: Results[str] = Results()
    assert results.get(KEY, "life 1") is None
    results.note(KEY, "life 1", "saved")
    assert results.get(KEY, "life 1") == "saved"
    assert results.get(KEY, "life 2") is None
    assert results.get(Key("sim", "other"), "life 1") is None


@pytest.mark.slow
def test_results_are_bounded() -> None:
    """The oldest goes; its step is done again."""
    results: Results[int] = Results()
    for n in range(LIMIT + 1):
        results.note(Key("sim", str(n)), "", n)
    assert results.get(Key("sim", "0"), "") is None
    assert results.get(Key("sim", "1"), "") == 1


def test_everything_is_forgotten_with_the_claim() -> None:
    """StepFailures, too."""
    kept = memory()
    kept.sole.note(KEY, "claim-1", True)
    kept.stored.note(KEY, "claim-1", "v1")
    kept.fail(KEY, claim(), "BindPod", "why", refused=False)
    kept.forget(KEY)
    assert kept.sole.get(KEY, "claim-1") is None
    assert kept.stored.get(KEY, "claim-1") is None
    assert kept.failure(KEY, claim()) is None


def test_a_new_round_begins_without_setbacks() -> None:
    """Three failures of the last round are not the first three of this one."""
    kept = memory()
    for _ in range(3):
        kept.fail(KEY, claim(), "Save", "no", refused=False)
    failure = kept.failure(KEY, claim())
    assert failure is not None and failure.count == 3
    later = claim(status=ClaimStatus(release=Release(epoch=1)))
    assert kept.failure(KEY, later) is None
    kept.fail(KEY, later, "Save", "no", refused=False)
    failure = kept.failure(KEY, later)
    assert failure is not None and failure.count == 1


def test_another_version_is_restored_without_the_setbacks_of_the_bad_one() -> None:
    """Whoever asks for the one before it does not wait for the back-off of what is damaged."""
    kept = memory()
    bad = claim(status=ClaimStatus(snapshot=SnapshotRefs(base="d", restored="d")))
    for _ in range(8):
        kept.fail(KEY, bad, "Restore", "damaged", refused=True)
    assert kept.failure(KEY, bad) is not None
    older = claim(status=ClaimStatus(snapshot=SnapshotRefs(base="d", restored="c")))
    assert kept.failure(KEY, older) is None
    kept.fail(KEY, older, "Restore", "away", refused=False)
    failure = kept.failure(KEY, older)
    assert failure is not None and (failure.count, failure.refused) == (1, False)


def test_what_a_save_needs_is_tried_as_patiently_as_the_save() -> None:
    """Three tries outlast a restart of the helper; before an instance runs they come sooner."""
    pauses = []
    for of in (claim(), claim(ClaimPhase.RELEASING)):
        kept = memory()
        kept.fail(KEY, of, "LookUpSnapshot", "away", refused=False)
        failure = kept.failure(KEY, of)
        assert failure is not None
        pauses.append(failure.due_in)
    assert pauses[1] / pauses[0] == pytest.approx(SAVING, rel=0.001)


def test_what_is_refused_stays_refused() -> None:
    """A step beside it that could not reach somebody does not hide it."""
    kept = memory()
    kept.fail(KEY, claim(), "LookForRival", "another", refused=True)
    kept.fail(KEY, claim(), "LookUpSnapshot", "away", refused=False)
    failure = kept.failure(KEY, claim())
    assert failure is not None and failure.step == "LookForRival"
    kept.fail(KEY, claim(), "LookForRival", "away", refused=False)
    failure = kept.failure(KEY, claim())
    assert failure is not None and not failure.refused


def test_strays_without_a_claim_have_setbacks_too() -> None:
    """There is no round to compare with."""
    kept = memory()
    kept.fail(KEY, None, "DeletePod", "away", refused=False)
    assert kept.failures.of(KEY) is not None


def test_disk_use_is_looked_at_some_time_after_the_first_sight() -> None:
    """Not in the middle of a claim, and not for all instances at once."""
    clock = FakeClock()
    kept = Memory(clock, new_rng(1))
    first = kept.usage(KEY, bound())
    assert first.full is None
    half = timedelta(seconds=USAGE_PERIOD / 2)
    assert half <= first.due_in <= timedelta(seconds=USAGE_PERIOD)
    clock.advance(first.due_in)
    assert kept.usage(KEY, bound()).due_in == timedelta(0)
    kept.note_usage(KEY, bound(), None)
    again = kept.usage(KEY, bound())
    assert (again.full, again.due_in) == (None, timedelta(seconds=USAGE_PERIOD))
    kept.note_usage(KEY, bound(), "")
    assert kept.usage(KEY, bound()).full == ""


def test_disk_use_is_looked_at_when_the_pod_says_otherwise() -> None:
    """A tenant that is frozen makes its Pod not ready: the agent is asked why, and then how long.

    No more than once a second, also if they go on to disagree or there is no answer.
    """
    clock = FakeClock()
    kept = Memory(clock, new_rng(1))
    frozen = bound(agent_ready=False)
    assert kept.usage(KEY, frozen) == UsageSeen(timedelta(0), None)
    kept.note_usage(KEY, frozen, None)
    assert kept.usage(KEY, frozen) == UsageSeen(timedelta(seconds=USAGE_SOON), None)
    kept.note_usage(KEY, frozen, "disk")
    told = UsageSeen(timedelta(seconds=USAGE_PERIOD_FULL), "disk")
    assert kept.usage(KEY, frozen) == told
    kept.note_usage(KEY, frozen, None)
    assert kept.usage(KEY, frozen) == told
    assert kept.usage(KEY, bound()) == UsageSeen(timedelta(seconds=USAGE_SOON), "disk")
    kept.note_usage(KEY, bound(), "quota")  # of which its tenant is not frozen
    told = UsageSeen(timedelta(seconds=USAGE_PERIOD_FULL), "quota")
    assert kept.usage(KEY, bound()) == told


def test_disk_use_is_looked_at_at_once_if_the_claim_says_it_is_frozen() -> None:
    """Since an earlier operator: its program may have started anew, and run."""
    kept = Memory(FakeClock(), new_rng(1))
    assert kept.usage(KEY, bound(), was_full=True) == UsageSeen(timedelta(0), None)
    kept.note_usage(KEY, bound(), "", over=True, unlinked=True)
    told = UsageSeen(timedelta(seconds=USAGE_PERIOD_FULL), "", over=True, unlinked=True)
    assert kept.usage(KEY, bound(), was_full=True) == told
    kept.note_usage(KEY, bound(), None)
    assert kept.usage(KEY, bound(), was_full=True) == told
    kept.note_usage(KEY, bound(), "")
    later = UsageSeen(timedelta(seconds=USAGE_PERIOD), "")
    assert kept.usage(KEY, bound(), was_full=True) == later


def test_trying_again_forgets_what_was_found_bad() -> None:
    """Somebody may have mended it."""
    kept = memory()
    kept.corrupt.note(KEY, "claim-1", "v1")
    kept.fail(KEY, claim(), "Restore", "bad", refused=True)
    kept.try_again(KEY)
    assert kept.corrupt.get(KEY, "claim-1") is None
    assert kept.failure(KEY, claim()) is None


def test_rounds_are_of_a_claim() -> None:
    """Another object of the same name begins afresh."""
    kept = memory()
    kept.fail(KEY, claim(), "CreatePod", "no", refused=False)
    other = claim(uid="other", status=msgspec.structs.replace(ClaimStatus()))
    assert kept.failure(KEY, other) is None
