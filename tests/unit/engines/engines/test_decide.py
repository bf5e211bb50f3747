"""What is decided about an engine, phase by phase and guard by guard."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.children import NOTHING, Child, State
from boilerhouse.engines.engines.decide import (
    GATED_LOOK,
    MOST_GENERATIONS,
    SETTLED_LOOK,
    SOONEST_LOOK,
    decide,
)
from boilerhouse.engines.engines.machine import ENGINE, EnginePhase
from boilerhouse.engines.engines.ready import EXTERNAL_FINALIZER, READY
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    DeleteService,
    DrainSeen,
    EnsureBudget,
    EnsureConfigMap,
    EnsureHeadless,
    EnsureService,
    EnsureStatefulSet,
    GenerationSeen,
    Policy,
    ServiceSeen,
)
from boilerhouse.engines.fields import DrainAction
from tests.unit.engines.engines.seeing import (
    BLOCKED,
    FOREIGN,
    GOING,
    MINUTE,
    NO_SERVICE,
    NOW,
    SOUND,
    TAMPERED,
    WANTED,
    P,
    condition,
    engine,
    rolling,
    seen,
    selecting,
    steps,
    told,
    waits,
    whole,
    written,
)

# The object itself.


def test_an_engine_is_held_before_anything_is_made() -> None:
    assert decide(seen(engine(finalizers=("other",)))) == Do((AddFinalizer(),))


def test_a_deleted_engine_takes_everything_with_it() -> None:
    """All generations and the Service at once; draining is not waited for."""
    look = seen(rolling(P.DRAINING, deleting=True), whole(0), whole(1))
    assert steps(decide(look)) == (
        DeleteGeneration(whole(0), "the engine is deleted"),
        DeleteGeneration(whole(1), "the engine is deleted"),
        DeleteService(selecting(1)),
    )


def test_the_finalizer_goes_when_everything_is_deleted() -> None:
    """What is on its way, and what belongs to others, is not waited for."""
    going = GenerationSeen(0, statefulset=GOING, headless=FOREIGN)
    look = seen(engine(deleting=True), going, service=NO_SERVICE)
    assert decide(look) == Do((RemoveFinalizer(),))


def test_a_deleted_engine_that_is_not_held_is_left_alone() -> None:
    """No finalizer is put on an object that goes."""
    look = seen(engine(deleting=True, finalizers=()), service=NO_SERVICE)
    assert decide(look) == Wait("being deleted")


def test_finalizers_of_others_are_told_and_do_not_block() -> None:
    """Once they are told, the engine goes."""
    held = GenerationSeen(0, statefulset=replace(GOING, held_by=("x.example/y",)))
    look = seen(engine(deleting=True), held, service=NO_SERVICE)
    status = written(decide(look))
    ready = condition(status, READY)
    assert (ready.reason, ready.status) == (EXTERNAL_FINALIZER, "False")
    assert "x.example/y" in ready.message
    again = replace(look, engine=replace(look.engine, status=status))
    assert decide(again) == Do((RemoveFinalizer(),))


# switching


def test_the_service_is_switched_and_then_looked_at_again() -> None:
    """Two passes: the write, and the read that confirms it."""
    look = seen(rolling(P.SWITCHING), whole(0), whole(1))
    assert steps(decide(look)) == (EnsureService(1),)
    status = written(decide(replace(look, service=selecting(1))))
    assert (status.phase, status.active_generation) == (P.DRAINING, 1)
    assert (status.draining_generation, status.draining_since) == (0, NOW)
    assert (status.active_render_hash, status.active_replicas) == ("b", 1)


@pytest.mark.parametrize(("replicas", "phase"), [(1, P.STABLE), (0, P.STOPPED)])
def test_a_first_generation_has_nothing_to_drain(replicas: int, phase: EnginePhase) -> None:
    first = engine(
        P.SWITCHING, active_generation=-1, active_render_hash="", current_replicas=replicas
    )
    status = written(decide(seen(first, whole(0, pods=replicas))))
    assert (status.phase, status.active_generation) == (phase, 0)
    assert status.draining_generation is None


@pytest.mark.parametrize(
    "lost", [whole(1, statefulset=NOTHING), whole(1, statefulset=GOING), whole(1, ready=0)]
)
def test_a_generation_that_is_lost_before_the_switch_is_made_again(lost: GenerationSeen) -> None:
    """Traffic is not sent into nothing."""
    assert written(decide(seen(rolling(P.SWITCHING), whole(0), lost))).phase == P.CREATING


def test_pods_that_falter_after_the_switch_do_not_take_it_back() -> None:
    look = seen(rolling(P.SWITCHING), whole(0), whole(1, ready=0), service=selecting(1))
    assert written(decide(look)).phase == P.DRAINING


def test_a_switch_to_what_is_gone_is_taken_back() -> None:
    """The old generation is still there: the Service returns to it."""
    look = seen(rolling(P.SWITCHING), whole(0), service=selecting(1))
    status = written(decide(look))
    assert status.phase == P.CREATING
    again = seen(replace(look.engine, status=status), whole(0), service=selecting(1))
    assert steps(decide(again)) == (EnsureService(0),)


def test_a_service_that_is_going_is_waited_for() -> None:
    look = seen(rolling(P.SWITCHING), whole(0), whole(1), service=selecting(0, GOING))
    waits(look, GATED_LOOK)


# draining


@pytest.mark.parametrize(
    ("drain", "drained"),
    [
        (DrainSeen(), True),
        (DrainSeen(busy=1), False),
        (DrainSeen(failing=("e-g0-0: refused",)), False),
        (None, False),
    ],
)
def test_old_work_is_waited_for(drain: DrainSeen | None, drained: bool) -> None:
    """What could not be asked is busy."""
    look = seen(rolling(P.DRAINING), whole(0), whole(1), drain=drain)
    if drained:
        assert written(decide(look)).phase == P.CLEANING
    else:
        waits(look, timedelta(seconds=5))


def test_a_check_that_fails_is_told_and_asked_again_at_its_interval() -> None:
    """Neither an error nor a back-off."""
    of = rolling(P.DRAINING, policy=Policy(drain_interval=timedelta(seconds=7)))
    look = seen(of, whole(0), whole(1), drain=DrainSeen(failing=("e-g0-0: refused",)))
    ready = condition(written(decide(look)), READY)
    assert (ready.reason, ready.message) == ("DrainCheckFailing", "e-g0-0: refused")
    waits(look, timedelta(seconds=7))


def test_no_interval_is_shorter_than_a_second() -> None:
    of = rolling(P.DRAINING, policy=Policy(drain_interval=timedelta(0)))
    waits(seen(of, whole(0), whole(1), drain=DrainSeen(busy=1)), SOONEST_LOOK)


def test_without_a_check_the_phase_is_one_pass_long() -> None:
    """recreate and drainCheckEnabled: false."""
    of = rolling(P.DRAINING, policy=Policy(drain=False))
    assert written(decide(seen(of, whole(0), whole(1)))).phase == P.CLEANING


@pytest.mark.parametrize("child", [NOTHING, GOING])
def test_what_is_gone_has_finished(child: Child) -> None:
    look = seen(rolling(P.DRAINING), whole(0, statefulset=child), whole(1), drain=DrainSeen(busy=1))
    assert written(decide(look)).phase == P.CLEANING


def test_after_the_timeout_it_is_waited_for_or_not() -> None:
    """The default waits and says so."""
    late = Policy(drain_timeout=MINUTE)
    look = seen(rolling(P.DRAINING, policy=late), whole(0), whole(1), drain=DrainSeen(busy=1))
    assert condition(written(decide(look)), "Stalled").reason == "DrainTimedOut"
    waits(look, timedelta(seconds=5))
    hasty = replace(late, drain_action=DrainAction.PROCEED)
    look = replace(look, engine=replace(look.engine, policy=hasty))
    assert written(decide(look)).phase == P.CLEANING


def test_a_spec_change_waits_for_the_transition_to_end() -> None:
    """No new number in draining and cleaning, whatever is asked for."""
    changed = replace(WANTED, hash="c")
    look = seen(rolling(P.DRAINING), whole(0), whole(1), drain=DrainSeen(busy=1), wanted=changed)
    waits(look, timedelta(seconds=5))
    look = seen(rolling(P.CLEANING), whole(0), whole(1), wanted=changed)
    assert steps(decide(look)) == (DeleteGeneration(whole(0), "its successor serves"),)


@pytest.mark.parametrize("phase", [P.DRAINING, P.CLEANING])
def test_what_serves_is_kept_whole_meanwhile(phase: EnginePhase) -> None:
    """A long drain must not leave a broken Service broken."""
    of = rolling(phase)
    look = seen(of, whole(0), whole(1, config=TAMPERED), service=selecting(0))
    assert steps(decide(look)) == (EnsureService(1), EnsureConfigMap(1))
    unknown = seen(of, whole(0), whole(1, config=TAMPERED), service=selecting(0), **BLOCKED)
    assert steps(decide(unknown)) == (EnsureService(1),)


def test_nothing_to_drain_is_at_rest() -> None:
    of = rolling(P.DRAINING, draining_generation=None)
    assert written(decide(seen(of, whole(1)))).phase == P.STABLE


# cleaning


def test_the_old_generation_is_deleted_and_then_forgotten() -> None:
    """What is on its way is as good as gone: its Pods may take their grace."""
    left = GenerationSeen(0, config=SOUND)
    look = seen(rolling(P.CLEANING), left, whole(1))
    assert steps(decide(look)) == (DeleteGeneration(left, "its successor serves"),)
    status = written(
        decide(seen(rolling(P.CLEANING), GenerationSeen(0, statefulset=GOING), whole(1)))
    )
    assert (status.phase, status.draining_generation, status.draining_since) == (
        P.STABLE,
        None,
        None,
    )


def test_cleaning_of_nothing_is_at_rest() -> None:
    of = rolling(P.CLEANING, draining_generation=None, active_replicas=0)
    assert written(decide(seen(of, whole(1)))).phase == P.STOPPED


# stable and stopped


def test_at_rest_it_is_looked_at_every_half_minute() -> None:
    look = seen(engine(), whole(0))
    status = written(decide(look))
    assert status.observed_generation == 3
    assert (status.replicas, status.ready_replicas) == (1, 1)
    assert status.selector == "firebolt.io/engine=e,firebolt.io/generation=0"
    waits(look, SETTLED_LOOK)


def test_a_change_writes_the_intent_alone() -> None:
    status = written(decide(seen(engine(), whole(0), wanted=replace(WANTED, hash="b"))))
    assert (status.phase, status.current_generation, status.active_generation) == (P.CREATING, 1, 0)
    assert status.observed_generation == 0


def test_an_aborted_spec_is_not_observed() -> None:
    of = engine(aborted_render_hash="b", latest_generation=1)
    look = seen(of, whole(0), wanted=replace(WANTED, hash="b"))
    assert written(decide(look)).observed_generation == 0


@pytest.mark.parametrize("phase", [P.STABLE, P.STOPPED])
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("config", EnsureConfigMap(0)),
        ("headless", EnsureHeadless(0)),
        ("budget", EnsureBudget(0)),
        ("statefulset", EnsureStatefulSet(0)),
    ],
)
def test_what_is_missing_is_made_again_in_place(
    phase: EnginePhase, name: str, step: object
) -> None:
    """The same generation, also at zero replicas."""
    of = engine(phase, active_replicas=int(phase == P.STABLE))
    missing: dict[str, Any] = {name: NOTHING}
    assert steps(decide(seen(of, whole(0, **missing)))) == (step,)


def test_a_statefulset_that_is_gone_is_not_made_of_something_else() -> None:
    """After an abort, what the active generation was made of is not what is asked for."""
    of = engine(aborted_render_hash="b", latest_generation=1)
    look = seen(of, whole(0, statefulset=NOTHING), wanted=replace(WANTED, hash="b"))
    status = written(decide(look))
    assert (status.current_generation, status.current_render_hash) == (2, "b")
    assert "not known any more" in status.rolled_because


def test_repairs_of_an_aborted_engine_would_render_the_wrong_spec() -> None:
    of = engine(aborted_render_hash="b", latest_generation=1)
    look = seen(of, whole(0, config=NOTHING), wanted=replace(WANTED, hash="b"))
    waits(look, SETTLED_LOOK)


@pytest.mark.parametrize("child", [GOING, TAMPERED])
def test_a_statefulset_that_others_change_is_replaced(child: Child) -> None:
    status = written(decide(seen(engine(), whole(0, statefulset=child))))
    assert (status.phase, status.current_generation) == (P.CREATING, 1)


@pytest.mark.parametrize(
    "service", [NO_SERVICE, selecting(5), selecting(None), selecting(0, TAMPERED)]
)
def test_the_service_is_repaired(service: ServiceSeen) -> None:
    assert steps(decide(seen(engine(), whole(0), service=service))) == (EnsureService(0),)


@pytest.mark.parametrize("changes", [{"active_generation": -1}, {"current_generation": 4}])
def test_a_status_that_contradicts_itself_is_left_by_a_new_generation(
    changes: dict[str, Any],
) -> None:
    """Nothing panics: it was edited by hand."""
    of = engine(latest_generation=4, **changes)
    status = written(decide(seen(of, whole(0), service=selecting(of.status.active_generation))))
    assert (status.phase, status.current_generation) == (P.CREATING, 5)


def test_a_sweep_is_bounded() -> None:
    """The rest goes with the next passes."""
    of = engine(current_generation=90, active_generation=90, latest_generation=90)
    look = seen(of, *(whole(n) for n in range(60)), whole(90))
    assert len(steps(decide(told(look)))) == MOST_GENERATIONS


def test_ignored_configuration_is_listed() -> None:
    look = seen(engine(), whole(0), wanted=replace(WANTED, ignored=("instance.id",)))
    assert written(decide(look)).ignored_config == ("instance.id",)
    of = engine(ignored_config=("instance.id",))
    assert written(decide(seen(of, whole(0), **BLOCKED))).ignored_config == ("instance.id",)


def test_what_was_told_is_not_told_again() -> None:
    """A status is written only when it changed."""
    for of in (engine(), rolling(P.CREATING), rolling(P.DRAINING)):
        look = told(seen(of, whole(0), whole(1, ready=0), drain=DrainSeen(busy=1)))
        assert not isinstance(decide(look), WriteStatus)


def test_every_edge_of_the_table_is_walked() -> None:
    """The machine has no edge that no decision takes."""
    taken = {
        (P.CREATING, P.SWITCHING), (P.CREATING, P.STABLE), (P.CREATING, P.STOPPED),
        (P.SWITCHING, P.CREATING), (P.SWITCHING, P.DRAINING), (P.SWITCHING, P.STABLE),
        (P.SWITCHING, P.STOPPED), (P.DRAINING, P.CLEANING), (P.DRAINING, P.STABLE),
        (P.DRAINING, P.STOPPED), (P.CLEANING, P.STABLE), (P.CLEANING, P.STOPPED),
        (P.STABLE, P.CREATING), (P.STOPPED, P.CREATING),
    }  # fmt: skip
    assert {(edge.source, edge.target) for edge in ENGINE.edges} == taken


def test_a_child_is_removable_if_it_is_ours_and_not_on_its_way() -> None:
    removable = {state for state in State if Child(state).removable}
    assert removable == {State.SOUND, State.TAMPERED}
