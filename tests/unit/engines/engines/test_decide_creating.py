"""What is decided about an engine whose next generation is made: gates, aborts, deadlines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from boilerhouse.engines.children import NOTHING, Child
from boilerhouse.engines.engines.decide import (
    CREATING_LOOK,
    GATED_LOOK,
    SETTLED_LOOK,
    decide,
)
from boilerhouse.engines.engines.ready import READY
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    DrainSeen,
    EngineSeen,
    EnsureBudget,
    EnsureConfigMap,
    EnsureHeadless,
    EnsureService,
    EnsureStatefulSet,
    Gate,
    GenerationSeen,
    Policy,
)
from boilerhouse.engines.fields import DeadlineAction
from tests.unit.engines.engines.seeing import (
    BLOCKED,
    FOREIGN,
    GOING,
    MINUTE,
    NEW,
    NO_SERVICE,
    NOW,
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

# creating


def test_the_first_write_is_the_number_and_what_it_stands_for() -> None:
    """Nothing is made before: neither Service nor ConfigMap."""
    look = seen(engine(P.CREATING, status=NEW), service=NO_SERVICE, wanted=WANTED)
    status = written(decide(look))
    assert (status.phase, status.current_generation, status.active_generation) == (
        P.CREATING,
        0,
        -1,
    )
    assert (status.current_render_hash, status.current_replicas) == ("a", 1)
    assert status.current_since == NOW
    assert status.rolled_because == "the engine is new"


def test_an_engine_whose_status_was_lost_serves_on() -> None:
    """What the Service selects stays active, and the next number is above everything found."""
    look = seen(
        engine(P.CREATING, status=NEW),
        whole(3, pods=2),
        whole(7),
        GenerationSeen(9, statefulset=GOING),
        service=selecting(3),
        wanted=WANTED,
    )
    status = written(decide(look))
    assert (status.active_generation, status.active_replicas) == (3, 2)
    assert (status.current_generation, status.latest_generation) == (8, 8)


def test_a_service_that_selects_nothing_of_ours_makes_nothing_active() -> None:
    look = seen(engine(P.CREATING, status=NEW), service=selecting(3), wanted=WANTED)
    assert written(decide(look)).active_generation == -1


def test_then_the_service_is_made() -> None:
    """On the first generation: nothing serves yet, and unready Pods are not published."""
    first = engine(P.CREATING, active_generation=-1, active_render_hash="")
    assert steps(decide(seen(first, service=NO_SERVICE))) == (EnsureService(0),)


def test_then_what_the_pods_need() -> None:
    look = seen(rolling(P.CREATING), whole(0))
    assert steps(decide(look)) == (EnsureConfigMap(1), EnsureHeadless(1), EnsureBudget(1))


def test_then_the_pods() -> None:
    look = seen(rolling(P.CREATING), whole(0), whole(1, pods=0, statefulset=NOTHING))
    assert steps(decide(look)) == (EnsureStatefulSet(1),)


def test_no_pods_before_what_they_need_is_there() -> None:
    """A ConfigMap that is going holds its name: it is waited for."""
    look = seen(rolling(P.CREATING), whole(0), whole(1, pods=0, statefulset=NOTHING, config=GOING))
    waits(look, CREATING_LOOK)


def test_pods_are_waited_for() -> None:
    waits(seen(rolling(P.CREATING), whole(0), whole(1, ready=0)), CREATING_LOOK)


def test_ready_pods_are_switched_to() -> None:
    status = written(decide(seen(rolling(P.CREATING), whole(0), whole(1))))
    assert (status.phase, status.active_generation) == (P.SWITCHING, 0)


@pytest.mark.parametrize(("pods", "ready"), [(2, 2), (1, 0), (0, 0)])
def test_exactly_the_replicas_must_be_ready(pods: int, ready: int) -> None:
    """Too many Pods are not ready either: some of them are another spec's."""
    waits(seen(rolling(P.CREATING), whole(0), whole(1, pods=pods, ready=ready)), CREATING_LOOK)


def test_no_replicas_are_ready_at_once() -> None:
    """Scaling to zero passes through without waiting."""
    of = rolling(P.CREATING, current_replicas=0, replicas=0)
    assert written(decide(seen(of, whole(0), whole(1, pods=0)))).phase == P.SWITCHING


def test_a_change_is_looked_at_before_readiness() -> None:
    """Ready Pods of an older spec are not switched to: the next number is given to the new one."""
    changed = replace(WANTED, hash="c", inputs=(("replicas", "r2"),))
    look = seen(
        rolling(P.CREATING), whole(0), whole(1), wanted=changed, stamped=(("replicas", "r1"),)
    )
    status = written(decide(look))
    assert (status.phase, status.current_generation, status.latest_generation) == (P.CREATING, 2, 2)
    assert (status.current_render_hash, status.active_generation) == ("c", 0)
    assert status.rolled_because == "changed: replicas"


def test_an_abandoned_generation_is_deleted_afterwards() -> None:
    """The number comes first; what is left of the old one goes while the new one is waited for."""
    of = rolling(P.CREATING, current_generation=2, latest_generation=2)
    look = seen(of, whole(0), whole(1), whole(2, ready=0))
    assert steps(decide(told(look))) == (DeleteGeneration(whole(1), "no status names it any more"),)


def test_no_number_is_used_twice() -> None:
    """After an abort the next number is above the one that was given up."""
    of = engine(latest_generation=4)
    status = written(decide(seen(of, whole(0), wanted=replace(WANTED, hash="c"))))
    assert (status.current_generation, status.latest_generation) == (5, 5)


@pytest.mark.parametrize(
    ("child", "why"), [(GOING, "was deleted"), (TAMPERED, "changed by something else")]
)
def test_a_generation_that_is_lost_while_it_is_made_is_replaced(child: Child, why: str) -> None:
    """One that is going may hold its name for long; one that was changed is not what it says."""
    status = written(decide(seen(rolling(P.CREATING), whole(0), whole(1, statefulset=child))))
    assert status.current_generation == 2
    assert why in status.rolled_because


def test_the_service_stays_on_what_serves_while_the_next_is_made() -> None:
    """Should it be gone, or select something else, it is put back: never on what is not ready."""
    for service in (NO_SERVICE, selecting(1), selecting(None)):
        look = seen(rolling(P.CREATING), whole(0), service=service)
        assert steps(decide(look)) == (EnsureService(0),)


def test_objects_of_others_are_not_touched() -> None:
    """A name that is taken is told, and waited for."""
    for look in (
        seen(rolling(P.CREATING), whole(0), whole(1, config=FOREIGN)),
        seen(engine(), whole(0, headless=FOREIGN)),
        seen(engine(), whole(0), service=selecting(None, FOREIGN)),
        seen(rolling(P.SWITCHING), whole(0), whole(1), service=selecting(None, FOREIGN)),
    ):
        assert condition(written(decide(look)), READY).reason == "NameTaken"
        waits(look, GATED_LOOK)


# The gates.


@pytest.mark.parametrize(
    "of", [rolling(P.CREATING), engine(P.STABLE), engine(P.STOPPED, active_replicas=0)]
)
def test_what_must_be_rendered_waits_for_its_instance(of: EngineSeen) -> None:
    """One write tells both conditions; then it is looked at again."""
    look = seen(of, whole(0), whole(1), **BLOCKED)
    status = written(decide(look))
    assert condition(status, "InstanceReady").status == "False"
    assert condition(status, READY).reason == "InstanceNotReady"
    assert (status.phase, status.current_generation) == (
        look.engine.status.phase,
        look.engine.status.current_generation,
    )
    waits(look, GATED_LOOK)


def test_a_rollout_that_has_begun_to_switch_goes_on_without_class_and_instance() -> None:
    """They may come and go: what is there suffices."""
    gone = {
        **BLOCKED,
        "faults": (Gate("FireboltEngineClassMissing", "gone"),),
        "known_profile": False,
    }
    look = seen(rolling(P.SWITCHING), whole(0), whole(1), **gone)
    assert steps(decide(look)) == (EnsureService(1),)
    look = seen(rolling(P.DRAINING), whole(0), whole(1), drain=DrainSeen(), **gone)
    assert written(decide(look)).phase == P.CLEANING
    look = seen(rolling(P.CLEANING), whole(0), whole(1), **gone)
    assert steps(decide(look)) == (DeleteGeneration(whole(0), "its successor serves"),)


def test_a_service_cannot_be_made_without_its_class() -> None:
    """Its ports are the class's to say; one that is there can be pointed elsewhere."""
    look = seen(rolling(P.SWITCHING), whole(0), whole(1), service=NO_SERVICE, known_profile=False)
    waits(look, GATED_LOOK)


def test_the_service_is_repaired_though_the_instance_is_gone() -> None:
    look = seen(engine(), whole(0), service=NO_SERVICE, **BLOCKED)
    assert steps(decide(look)) == (EnsureService(0),)


# Aborts and deadlines.


def test_an_abort_goes_back_to_what_serves() -> None:
    """The number is given up for ever, and what it stood for is not tried again."""
    status = written(decide(seen(rolling(P.CREATING, abort=1), whole(0), whole(1, ready=0))))
    assert (status.phase, status.current_generation, status.active_generation) == (P.STABLE, 0, 0)
    assert (status.latest_generation, status.aborted_render_hash) == (1, "b")
    assert status.current_render_hash == "a"
    assert status.current_since is None
    assert condition(status, "Progressing").reason == "Aborted"
    again = seen(engine(status=status), whole(0), wanted=replace(WANTED, hash="b"))
    waits(again, SETTLED_LOOK)


def test_an_abort_of_a_stopped_engines_next_generation_stops_again() -> None:
    of = rolling(P.CREATING, abort=1, active_replicas=0)
    assert written(decide(seen(of, whole(0, pods=0), whole(1, ready=0)))).phase == P.STOPPED


def test_an_abort_means_one_generation() -> None:
    """The annotation names a number; it does not follow to the next."""
    waits(seen(rolling(P.CREATING, abort=0), whole(0), whole(1, ready=0)), CREATING_LOOK)


@pytest.mark.parametrize("child", [NOTHING, GOING, TAMPERED])
def test_there_is_no_going_back_to_what_is_lost(child: Child) -> None:
    """The next pass would begin a new generation at once, and so on."""
    look = seen(rolling(P.CREATING, abort=1), whole(0, statefulset=child), whole(1, ready=0))
    waits(look, CREATING_LOOK)


def test_a_first_generation_cannot_be_aborted() -> None:
    first = engine(P.CREATING, active_generation=-1, active_render_hash="", abort=0)
    waits(seen(first, whole(0, ready=0)), CREATING_LOOK)


IMPATIENT = Policy(deadline=MINUTE, deadline_action=DeadlineAction.ABORT)


def test_a_late_generation_is_told() -> None:
    """By default it is waited for."""
    patient = Policy(deadline=MINUTE)
    look = seen(rolling(P.CREATING, policy=patient), whole(0), whole(1, ready=0))
    assert condition(written(decide(look)), "Stalled").reason == "ProgressDeadlineExceeded"
    waits(look, CREATING_LOOK)


def test_a_late_generation_is_aborted_if_that_is_asked_for() -> None:
    look = seen(rolling(P.CREATING, policy=IMPATIENT), whole(0), whole(1, ready=0))
    assert written(decide(look)).current_generation == 0


def test_the_deadline_is_the_generations_own() -> None:
    """A new number starts a new clock."""
    of = rolling(P.CREATING, policy=IMPATIENT, current_since=NOW - MINUTE / 2)
    waits(seen(of, whole(0), whole(1, ready=0)), CREATING_LOOK)
    changed = written(decide(seen(of, whole(0), whole(1), wanted=replace(WANTED, hash="c"))))
    assert changed.current_since == NOW


def test_another_spec_is_tried_after_an_abort() -> None:
    of = engine(aborted_render_hash="b", latest_generation=1)
    status = written(decide(seen(of, whole(0), wanted=replace(WANTED, hash="c"))))
    assert (status.phase, status.aborted_render_hash) == (P.CREATING, "")
