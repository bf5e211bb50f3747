"""Conditions of an engine: one order of reasons, and what they say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from boilerhouse.engines.children import NOTHING
from boilerhouse.engines.engines import ready
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.ready import CHAIN, Event, conditions, newest, taken
from boilerhouse.engines.engines.seen import DrainSeen, Gate, GenerationSeen, Seen, Warned
from tests.unit.engines.engines.seeing import (
    FOREIGN,
    NO_SERVICE,
    NOW,
    P,
    engine,
    rolling,
    seen,
    selecting,
    whole,
)


def said(look: Seen, name: str = ready.READY) -> tuple[str, str, str]:
    """What one condition says."""
    stated = conditions(look, look.engine.status)
    one = next(one for one in stated if one.type == name)
    return str(one.status), one.reason, one.message


def test_the_order_of_reasons_is_published() -> None:
    """The page's five in the page's order, the others between them."""
    assert [name for reason in CHAIN for name in reason.names] == [
        "InstanceNotReady",
        "FireboltEngineClassMissing",
        "FireboltEngineClassUnready",
        "NameTooLong",
        "TemplateRejected",
        "ResourceBoundsExceeded",
        "Initializing",
        "NameTaken",
        "DrainCheckFailing",
        "Stopped",
        "Rolling",
        "PodsNotReady",
    ]


FAULT = Gate("TemplateRejected", "spec.template.spec.hostNetwork: is set by the operator")


def test_the_instance_wins_over_everything() -> None:
    """Also over a stopped engine, and over its own template."""
    stopped = engine(P.STOPPED)
    look = seen(stopped, whole(0), instance_fault="it is gone", faults=(FAULT,))
    assert said(look) == ("False", "InstanceNotReady", "it is gone")
    assert said(replace(look, instance_fault=None)) == ("False", *_pair(FAULT))
    assert said(replace(look, instance_fault=None, faults=()))[1] == "Stopped"


def _pair(gate: Gate) -> tuple[str, str]:
    return gate.reason, gate.message


def test_gates_are_no_reason_where_nothing_is_rendered() -> None:
    look = seen(rolling(P.DRAINING), whole(1), instance_fault="it is gone", faults=(FAULT,))
    assert said(look)[1] == "Rolling"
    assert all(one.type != "InstanceReady" for one in conditions(look, look.engine.status))


def test_before_the_first_generation_it_initializes() -> None:
    look = seen(engine(P.CREATING, status=EngineStatus()), service=NO_SERVICE)
    assert said(look) == ("False", "Initializing", "no generation was begun yet")


def test_stopped_says_so() -> None:
    look = seen(engine(P.STOPPED, active_replicas=0), whole(0, pods=0))
    assert said(look) == ("False", "Stopped", "Engine is stopped (spec.replicas is 0)")


@pytest.mark.parametrize("phase", [P.CREATING, P.SWITCHING, P.DRAINING, P.CLEANING])
def test_every_other_phase_rolls(phase: Any) -> None:
    look = seen(rolling(phase), whole(0), whole(1))
    assert said(look) == ("False", "Rolling", f"generation 1 is {phase}")
    assert said(look, "Progressing")[:2] == ("True", "RollingOut")


def test_pods_that_are_not_ready_are_counted() -> None:
    look = seen(engine(active_replicas=3), whole(0, pods=3, ready=2))
    assert said(look) == ("False", "PodsNotReady", "generation 0 has 2 of 3 pod(s) ready")


def test_a_ready_engine_is_ready() -> None:
    look = seen(engine(), whole(0))
    assert said(look) == ("True", "EngineReady", "generation 0 is serving")
    assert said(look, "InstanceReady") == ("True", "InstanceReady", "")
    assert said(look, "Progressing")[:2] == ("False", "RolledOut")


def test_an_engine_without_an_instance_says_nothing_about_one() -> None:
    look = seen(engine(), whole(0), instance_needed=False)
    assert all(one.type != "InstanceReady" for one in conditions(look, look.engine.status))


WARNED = Warned("FailedCreate", "exceeded quota", 3)


def test_a_warning_of_the_statefulset_is_the_reason_if_pods_are_missing() -> None:
    """In the page's form."""
    of = rolling(P.CREATING, current_replicas=2)
    look = seen(of, whole(0), whole(1, pods=1, ready=1), warned=WARNED)
    expected = ("False", "FailedCreate", "StatefulSet e-g1: exceeded quota (x3)")
    assert said(look) == expected
    assert said(replace(look, warned=replace(WARNED, count=1)))[2] == (
        "StatefulSet e-g1: exceeded quota"
    )


@pytest.mark.parametrize(
    "look",
    [
        seen(rolling(P.CREATING), whole(0), whole(1, ready=0), warned=WARNED),  # all are there
        seen(rolling(P.CREATING), whole(0), warned=WARNED),  # no StatefulSet
        seen(
            rolling(P.DRAINING, current_replicas=2),
            whole(1),
            warned=WARNED,
            drain=DrainSeen(failing=("x",)),
        ),
        seen(engine(P.STOPPED, active_replicas=0, current_replicas=2), whole(0), warned=WARNED),
        seen(engine(), whole(0), warned=WARNED),
    ],
)
def test_other_reasons_are_not_replaced(look: Seen) -> None:
    assert said(look)[1] != "FailedCreate"


def test_a_reason_that_no_condition_can_have_is_replaced() -> None:
    look = seen(engine(), whole(0, pods=0), warned=replace(WARNED, reason="not a word"))
    assert said(look)[1] == "StatefulSetWarning"


def test_long_words_are_cut() -> None:
    look = seen(engine(), instance_fault="x" * 5000)
    assert len(said(look)[2]) == 1024


def test_it_is_available_while_something_serves() -> None:
    """Whatever is rolled out, and whatever the instance does."""
    look = seen(rolling(P.CREATING), whole(0), instance_fault="it is gone")
    assert said(look, "Available") == ("True", "Serving", "generation 0 is serving")
    assert said(seen(engine(), whole(0, ready=0)), "Available")[1] == "NoReadyPods"
    assert said(seen(engine(), whole(0), service=NO_SERVICE), "Available")[1] == "NoService"


def test_a_stall_that_ended_is_taken_back() -> None:
    """Once told, it is not left standing; never told, it is not told."""
    look = seen(engine(), whole(0))
    assert all(one.type != "Stalled" for one in conditions(look, look.engine.status))
    policy = replace(look.engine.policy, deadline=timedelta(seconds=1))
    late = seen(rolling(P.CREATING, policy=policy), whole(0), whole(1, ready=0))
    stated = conditions(late, late.engine.status)
    after = replace(look, engine=engine(conditions=stated))
    assert said(after, "Stalled")[:2] == ("False", "NotStalled")


def test_without_a_beginning_nothing_is_late() -> None:
    """A status that lost its times is not stalled."""
    policy = replace(
        engine().policy, deadline=timedelta(seconds=1), drain_timeout=timedelta(seconds=1)
    )
    for of in (
        rolling(P.CREATING, policy=policy, current_since=None),
        rolling(P.DRAINING, policy=policy, draining_since=None),
    ):
        assert all(one.type != "Stalled" for one in conditions(seen(of), of.status))


@pytest.mark.parametrize(
    ("generation", "named"),
    [
        ({"statefulset": FOREIGN}, "StatefulSet e-g0"),
        ({"headless": FOREIGN}, "Service e-g0-hl"),
        ({"config": FOREIGN}, "ConfigMap e-g0-config"),
        ({"budget": FOREIGN}, "PodDisruptionBudget e-g0-pdb"),
    ],
)
def test_a_taken_name_is_told(generation: dict[str, Any], named: str) -> None:
    look = seen(engine(), GenerationSeen(0, **generation))
    assert named in taken(look, look.engine.status)
    assert "Service e-service" in taken(
        seen(engine(), service=selecting(None, FOREIGN)), look.engine.status
    )
    assert taken(seen(engine(), whole(0, config=NOTHING)), look.engine.status) == ""


def test_the_newest_warning_is_taken_by_whatever_time_it_has() -> None:
    """Not every program sets all of them; a message that says nothing is skipped."""
    found = newest(
        [
            Event("A", "old", 1, last_seen=NOW),
            Event("B", "new", 2, event_time=NOW + timedelta(seconds=2)),
            Event("C", "mid", 3, created=NOW + timedelta(seconds=1)),
            Event("D", "", 4, last_seen=NOW + timedelta(hours=1)),
            Event("E", "timeless", 5),
        ]
    )
    assert found == Warned("B", "new", 2)
    assert newest([]) is newest([Event("E", "timeless")]) is None
