"""What was read becomes what is decided on: each object against what it should be."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from boilerhouse.engines.children import State
from boilerhouse.engines.engines import build
from boilerhouse.engines.engines.assemble import assemble
from boilerhouse.engines.engines.model import EngineStatus
from boilerhouse.engines.engines.ready import Event
from boilerhouse.engines.engines.seen import GenerationSeen, Seen, ServiceSeen, Warned
from boilerhouse.engines.profile import FIREBOLT
from tests.unit.engines.engines.reading import (
    ENGINE,
    Body,
    klass,
    live,
    made,
    pod,
    reads,
    spec,
)
from tests.unit.engines.engines.seeing import NOW, P

MADE = made()
STATUS = EngineStatus(
    phase=P.STABLE,
    current_generation=2,
    active_generation=2,
    latest_generation=2,
    current_render_hash=MADE.wanted.hash,
    active_render_hash=MADE.wanted.hash,
    current_replicas=1,
    active_replicas=1,
)


def bodies(number: int = 2) -> dict[str, Body]:
    return {
        "statefulset": build.statefulset(ENGINE, MADE, number),
        "headless": build.headless(ENGINE, MADE, number),
        "config": build.configmap(ENGINE, MADE, number),
        "budget": build.budget(ENGINE, number),
        "service": build.service(ENGINE, FIREBOLT, number),
    }


def look(objects: Iterable[Body], **changes: Any) -> Seen:
    return assemble(reads(*objects, **{"status": STATUS, **changes}))


def states(generation: GenerationSeen) -> dict[str, State]:
    return {
        name: getattr(generation, name).state
        for name in ("statefulset", "headless", "config", "budget")
    }


def changed(name: str, path: str, value: Any, **metadata: Any) -> list[Body]:
    """All objects, one of them with another value at a path."""
    there = {key: live(body) for key, body in bodies().items()}
    *parents, last = path.split("/")
    place = there[name]
    for parent in parents:
        place = place[parent]
    place[last] = value
    there[name]["metadata"] |= metadata
    return list(there.values())


def test_what_is_as_it_was_written_is_sound() -> None:
    seen = look(live(body) for body in bodies().values())
    assert set(states(seen.generation(2)).values()) == {State.SOUND}
    assert seen.service.child.state == State.SOUND and seen.service.selects == 2
    assert seen.wanted == MADE.wanted
    assert seen.stamped == MADE.wanted.inputs
    assert seen.generation(2).statefulset.uid == "uid-e-g2"


def test_what_is_not_there_is_absent() -> None:
    seen = look([])
    assert set(states(seen.generation(2)).values()) == {State.ABSENT}
    assert seen.service == ServiceSeen()


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("config", "data", {"config.yaml": "x"}),
        ("config", "data", {**bodies()["config"]["data"], "more": "x"}),
        ("config", "metadata/labels", {}),
        ("headless", "spec/publishNotReadyAddresses", False),
        ("headless", "spec/ports", []),
        ("headless", "spec/ports", [{"port": 1}, {"port": 2}, {"port": 3}]),
        ("headless", "spec/selector", {"x": "y"}),
        ("budget", "spec/maxUnavailable", 2),
        ("budget", "spec", None),
        ("statefulset", "metadata/generation", 2),
        ("statefulset", "metadata/annotations", {}),
        (
            "statefulset",
            "metadata/annotations",
            {**build.stamps(MADE), "firebolt.io/engine-class-hash": "x"},
        ),
    ],
)
def test_what_others_changed_is_tampered(name: str, path: str, value: Any) -> None:
    seen = look(changed(name, path, value))
    expected = dict.fromkeys(("statefulset", "headless", "config", "budget"), State.SOUND)
    assert states(seen.generation(2)) == {**expected, name: State.TAMPERED}


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("headless", "spec/clusterIPs", ["None"]),
        ("headless", "metadata/annotations", {"x": "y"}),
        ("config", "metadata/managedFields", [{}]),
        ("statefulset", "spec/revisionHistoryLimit", 10),
    ],
)
def test_what_a_server_adds_is_not_tampering(name: str, path: str, value: Any) -> None:
    assert set(states(look(changed(name, path, value)).generation(2)).values()) == {State.SOUND}


@pytest.mark.parametrize(
    ("path", "value", "state", "selects"),
    [
        ("spec/publishNotReadyAddresses", True, State.TAMPERED, 2),
        (
            "spec/selector",
            {"firebolt.io/engine": "e", "firebolt.io/generation": "x"},
            State.SOUND,
            None,
        ),
        (
            "spec/selector",
            {"firebolt.io/engine": "e", "firebolt.io/generation": "1", "a": "b"},
            State.SOUND,
            None,
        ),
        (
            "spec/selector",
            {"firebolt.io/engine": "e", "firebolt.io/generation": "1"},
            State.SOUND,
            1,
        ),
        ("spec/selector", None, State.SOUND, None),
    ],
)
def test_the_service_selects_one_generation_or_none(
    path: str, value: Any, state: State, selects: int | None
) -> None:
    """A selector with an entry too many selects nothing."""
    service = look(changed("service", path, value)).service
    assert (service.child.state, service.selects) == (state, selects)


def test_a_false_field_that_a_server_leaves_out_is_there() -> None:
    objects = changed("service", "spec/x", 1)
    for one in objects:
        one["spec"] = {k: v for k, v in one.get("spec", {}).items() if v is not False}
    assert look(objects).service.child.state == State.SOUND


def test_without_its_class_a_service_is_not_judged() -> None:
    """Its ports are the class's to say."""
    objects = changed("service", "spec/ports", [])
    seen = look(objects, spec=spec(engineClassRef="c"))
    assert seen.service.child.state == State.SOUND and not seen.known_profile
    assert seen.wanted is None and seen.faults[0].reason == "FireboltEngineClassMissing"


def test_what_is_going_is_terminating() -> None:
    """With the finalizers of others, not those of Kubernetes."""
    objects = changed(
        "statefulset",
        "x",
        1,
        deletionTimestamp="2026-05-01T12:00:00Z",
        finalizers=["foregroundDeletion", "x.example/y"],
    )
    child = look(objects).generation(2).statefulset
    assert (child.state, child.held_by) == (State.TERMINATING, ("x.example/y",))


@pytest.mark.parametrize(
    "owners", [None, [], [{"uid": "other", "controller": True}], [{"uid": "uid-e"}]]
)
def test_what_has_another_owner_is_foreign(owners: Any) -> None:
    """A label is no proof; the controller's UID is."""
    objects = changed("config", "metadata/ownerReferences", owners, finalizers=["x"])
    child = look(objects).generation(2).config
    assert (child.state, child.held_by) == (State.FOREIGN, ())


def test_a_generation_of_another_spec_is_not_judged_by_this_one() -> None:
    """What it was made of is not known any more; its StatefulSet still has its hash."""
    seen = look((live(body) for body in bodies().values()), spec=spec(replicas=2))
    assert set(states(seen.generation(2)).values()) == {State.SOUND}
    assert seen.wanted is not None and seen.wanted.hash != STATUS.active_render_hash
    stamped = changed("statefulset", "metadata/annotations", {"firebolt.io/render-hash": "x"})
    seen = look(stamped, spec=spec(replicas=2))
    assert seen.generation(2).statefulset.state == State.TAMPERED


def test_other_generations_are_found_by_their_label() -> None:
    """As they are: nothing is known about them."""
    old = [live(body) for name, body in bodies(0).items() if name != "service"]
    odd = copy.deepcopy(old[2])
    odd["metadata"]["labels"]["firebolt.io/generation"] = "new"
    odd["metadata"]["name"] = "odd"
    seen = look([*old, odd])
    assert [one.number for one in seen.generations] == [0, 2]
    assert set(states(seen.generation(0)).values()) == {State.SOUND}


def test_what_the_status_names_is_always_looked_at() -> None:
    status = EngineStatus(current_generation=3, active_generation=2, draining_generation=1)
    assert [one.number for one in look([], status=status).generations] == [1, 2, 3]
    new = EngineStatus()
    assert [one.number for one in look([], status=new).generations] == [0]


def test_pods_count_for_the_statefulset_that_owns_them() -> None:
    """By its UID: those of an older one of the same name do not count, nor those that go."""
    pods = (
        pod("a", "uid-e-g2"),
        pod("b", "uid-e-g2", ready=False),
        pod("c", "uid-e-g2", terminating=True),
        pod("d", "uid-old"),
        pod("e", ""),
    )
    generation = look((live(body) for body in bodies().values()), pods=pods).generation(2)
    assert (generation.pods, generation.ready) == (2, 1)
    assert look([], pods=pods).generation(2).pods == 0


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("x", None), ("", None)])
def test_an_abort_names_a_generation(text: str, number: int | None) -> None:
    assert look([], annotations={"firebolt.io/abort": text}).engine.abort == number


def test_a_restart_is_another_generation() -> None:
    seen = look([], annotations={"firebolt.io/restart": "now"})
    assert seen.wanted is not None and seen.wanted.hash != MADE.wanted.hash


def test_warnings_and_gates_are_handed_on() -> None:
    seen = look([], events=(Event("FailedCreate", "quota", 2, NOW),), instance=None, klass=klass())
    assert seen.warned == Warned("FailedCreate", "quota", 2)
    assert seen.instance_fault is not None and seen.instance_needed
