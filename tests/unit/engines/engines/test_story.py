"""An engine's life through everything that is pure: assemble, decide, build; only the API is small.

objects ─► Reads ─► assemble ─► decide ─► build ─► objects …
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.engines import build, names
from boilerhouse.engines.engines.assemble import PodRead, assemble
from boilerhouse.engines.engines.decide import decide
from boilerhouse.engines.engines.model import EngineSpec, EngineStatus
from boilerhouse.engines.engines.resolve import ClassFound, Made
from boilerhouse.engines.engines.seen import (
    DeleteGeneration,
    DeleteService,
    DrainSeen,
    EngineSeen,
    EnsureBudget,
    EnsureConfigMap,
    EnsureHeadless,
    EnsureService,
    EnsureStatefulSet,
    Seen,
    Step,
)
from tests.unit.engines.engines.reading import Body, klass, live, reads, resolved, spec

PASSES = 60


@dataclass
class Life:
    """One engine, and an API that holds it and its objects."""

    spec: EngineSpec = field(default_factory=spec)
    klass: ClassFound | None = None
    status: EngineStatus = field(default_factory=EngineStatus)
    generation: int = 1
    held: bool = False
    deleting: bool = False
    gone: bool = False
    busy: int = 0
    ready: bool = True
    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    written: int = 0

    def look(self) -> Seen:
        sets = [one for (kind, _), one in self.objects.items() if kind == "StatefulSet"]
        pods = [
            PodRead(f"{one['metadata']['name']}-{n}", one["metadata"]["uid"], self.ready)
            for one in sets
            for n in range(one["spec"]["replicas"])
        ]
        return assemble(
            reads(
                *self.objects.values(),
                spec=self.spec,
                klass=self.klass,
                status=self.status,
                generation=self.generation,
                finalizers=("compute.firebolt.io/engine-cleanup",) if self.held else (),
                deleting=self.deleting,
                pods=tuple(pods),
                drain=DrainSeen(self.busy),
            )
        )

    def settle(self) -> Wait:
        """Pass after pass until there is nothing to do; the status goes over the wire each time."""
        for _ in range(PASSES):
            seen = self.look()
            plan = decide(seen)
            match plan:
                case Wait():
                    return plan
                case WriteStatus(status):
                    self.status = msgspec.json.decode(
                        msgspec.json.encode(status), type=EngineStatus
                    )
                    if self.phases[-1:] != [str(status.phase)]:
                        self.phases.append(str(status.phase))
                case Do(steps):
                    for step in steps:
                        self._apply(seen, step)
            if self.gone:
                return Wait("gone")
        raise AssertionError(f"it does not settle: {plan}")

    def _apply(self, seen: Seen, step: Step) -> None:
        engine = seen.engine
        match step:
            case AddFinalizer():
                self.held = True
            case RemoveFinalizer():
                self.gone = True
            case EnsureConfigMap(n):
                self._put(build.configmap(engine, self._made(engine), n))
            case EnsureHeadless(n):
                self._put(build.headless(engine, self._made(engine), n))
            case EnsureBudget(n):
                self._put(build.budget(engine, n))
            case EnsureStatefulSet(n):
                self._put(build.statefulset(engine, self._made(engine), n))
            case EnsureService(n):
                self._put(build.service(engine, self._made(engine).profile, n))
            case DeleteService():
                del self.objects["Service", "e-service"]
            case DeleteGeneration(generation):
                number = str(generation.number)
                self.objects = {
                    key: one
                    for key, one in self.objects.items()
                    if one["metadata"]["labels"].get("firebolt.io/generation") != number
                }

    def _made(self, engine: EngineSeen) -> Made:
        made = resolved(self.spec, self.klass, name=engine.name).made
        assert made is not None
        return made

    def _put(self, body: Body) -> None:
        self.written += 1
        uid = f"uid-{self.written}"
        self.objects[body["kind"], body["metadata"]["name"]] = live(body, uid=uid)

    def edit(self, **fields: Any) -> None:
        self.spec = spec(**fields)
        self.generation += 1
        self.phases.clear()

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.objects)

    @property
    def selected(self) -> str:
        service = self.objects["Service", "e-service"]
        label: str = service["spec"]["selector"]["firebolt.io/generation"]
        return label


def of_generation(number: int) -> list[str]:
    made_of = (names.statefulset, names.headless, names.config, names.budget)
    return sorted(["e-service", *(name("e", number) for name in made_of)])


@pytest.fixture
def life() -> Life:
    """An engine that has come to rest."""
    one = Life()
    one.settle()
    return one


def test_a_first_deployment(life: Life) -> None:
    assert life.phases == ["creating", "switching", "stable"]
    assert life.names == of_generation(0) and life.selected == "0"
    assert life.status.observed_generation == 1
    assert life.settle().again_in is not None


def test_a_change_rolls_out_and_says_why(life: Life) -> None:
    life.edit(replicas=2)
    life.settle()
    assert life.phases == ["creating", "switching", "draining", "cleaning", "stable"]
    assert life.names == of_generation(1) and life.selected == "1"
    assert life.status.rolled_because == "changed: replicas"
    assert (life.status.replicas, life.status.ready_replicas) == (2, 2)


def test_to_zero_and_back(life: Life) -> None:
    """Stopping drains like every other change."""
    life.edit(replicas=0)
    life.settle()
    assert life.phases[-1] == "stopped" and life.names == of_generation(1)
    life.edit(replicas=1)
    life.settle()
    assert life.phases[-1] == "stable" and life.names == of_generation(2)


def test_busy_pods_hold_up_the_cleaning(life: Life) -> None:
    """And an edit meanwhile waits: afterwards it is one generation more."""
    life.busy = 3
    life.edit(replicas=2)
    life.settle()
    assert life.status.phase == "draining" and life.selected == "1"
    life.edit(replicas=3)
    life.settle()
    assert life.status.current_generation == 1
    life.busy = 0
    life.settle()
    assert life.names == of_generation(2) and life.status.current_generation == 2


def test_edits_while_pods_are_not_ready_leave_one_generation_behind(life: Life) -> None:
    """Traffic stays where it was; every number is given out once."""
    life.ready = False
    for replicas in (2, 3, 4):
        life.edit(replicas=replicas)
        life.settle()
        assert life.selected == "0"
        assert life.names == sorted({*of_generation(0), *of_generation(replicas - 1)})
    life.ready = True
    life.settle()
    assert life.names == of_generation(3) and life.status.latest_generation == 3


def test_what_is_deleted_by_hand_comes_back_as_it_was(life: Life) -> None:
    """The same generation, byte for byte."""
    for key in list(life.objects):
        before = life.objects.pop(key)
        life.settle()
        after = life.objects[key]
        assert {k: v for k, v in after.items() if k != "metadata"} == {
            k: v for k, v in before.items() if k != "metadata"
        }
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert life.status.current_generation == 0


def test_what_is_changed_by_hand_is_put_right(life: Life) -> None:
    """In place; only a StatefulSet is replaced, by the next generation."""
    life.objects["ConfigMap", "e-g0-config"]["data"]["config.yaml"] = "mine"
    life.objects["Service", "e-service"]["spec"]["selector"] = {"mine": "mine"}
    life.settle()
    assert "mine" not in life.objects["ConfigMap", "e-g0-config"]["data"]["config.yaml"]
    assert life.selected == "0" and life.status.current_generation == 0
    life.objects["StatefulSet", "e-g0"]["metadata"]["generation"] = 2
    life.settle()
    assert life.names == of_generation(1)


def test_a_class_that_is_set_edited_and_cleared_rolls_each_time(life: Life) -> None:
    """Its policies do not."""
    labelled = {"metadata": {"labels": {"a": "b"}}}
    for number, (ref, by) in enumerate(
        [
            ("c", klass(template=labelled)),
            ("c", klass(template={"metadata": {"labels": {"a": "c"}}})),
            (None, None),
        ],
        start=1,
    ):
        life.edit(engineClassRef=ref)
        life.klass = by
        life.settle()
        assert life.names == of_generation(number)
    life.edit(rollout="recreate", drainTimeout="1m")
    life.settle()
    assert life.names == of_generation(3)


def test_another_renderer_rolls_nothing(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade of the operator leaves running engines alone."""
    monkeypatch.setattr(build, "RENDERER", "2")
    life.settle()
    assert life.status.current_generation == 0


def test_a_status_that_is_lost_costs_no_outage(life: Life) -> None:
    """What serves stays selected until its successor is ready."""
    life.edit(replicas=2)
    life.settle()
    life.status, life.ready = EngineStatus(), False
    life.settle()
    assert life.selected == "1" and life.status.active_generation == 1
    life.ready = True
    life.settle()
    assert life.names == of_generation(2)


def test_deletion_leaves_nothing(life: Life) -> None:
    life.deleting = True
    life.settle()
    assert life.gone and life.objects == {}


def test_a_new_engine_of_the_same_name_does_not_touch_what_is_left_of_the_old(life: Life) -> None:
    """Objects of another UID block it, and are told."""
    for one in life.objects.values():
        one["metadata"]["ownerReferences"][0]["uid"] = "uid-old"
    life.status = EngineStatus()
    before = dict(life.objects)
    life.settle()
    assert life.objects == before
    ready = next(one for one in life.status.conditions if one.type == "Ready")
    assert ready.reason == "NameTaken"


def test_timers_start_anew_with_each_generation(life: Life) -> None:
    """A generation is never late by the clock of the one before it."""
    life.ready = False
    life.edit(replicas=2)
    life.settle()
    life.status = replace(life.status, current_since=None)
    life.edit(replicas=3)
    life.settle()
    assert life.status.current_since is not None
