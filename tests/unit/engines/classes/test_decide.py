"""What is decided about a class: its template, the engines that use it, its end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.classes import build, checks
from boilerhouse.engines.classes.decide import LOOK_AGAIN, decide
from boilerhouse.engines.classes.model import ClassStatus
from boilerhouse.engines.classes.seen import ClassSeen, Seen
from boilerhouse.engines.names import CLASS_FINALIZER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLASS = ClassSeen("c", "u", "7", 3, ClassStatus(), (CLASS_FINALIZER,))
SEEN = Seen(NOW, CLASS)


def written(seen: Seen) -> ClassStatus:
    plan = decide(seen)
    assert isinstance(plan, WriteStatus), plan
    status: ClassStatus = plan.status
    return status


def reason(status: ClassStatus) -> tuple[str, str]:
    (ready,) = status.conditions
    return str(ready.status), ready.reason


def test_a_class_is_held_first() -> None:
    assert decide(replace(SEEN, klass=replace(CLASS, finalizers=()))) == Do((AddFinalizer(),))


def test_an_admissible_class_says_so_and_counts_its_engines() -> None:
    status = written(replace(SEEN, engines=("a", "b")))
    assert reason(status) == ("True", "Admissible")
    assert (status.bound_engines, status.observed_generation) == (2, 3)
    told = replace(SEEN, engines=("a", "b"), klass=replace(CLASS, status=status))
    assert decide(told) == Wait("admissible", LOOK_AGAIN)


def test_what_its_template_may_not_say_is_told() -> None:
    """All of it, before anything else that is wrong."""
    status = written(replace(SEEN, refused=("x: y", "z: w"), unusable=("q",)))
    assert reason(status) == ("False", "OperatorOwnedFieldSet")
    assert status.conditions[0].message == "x: y; z: w"
    assert reason(written(replace(SEEN, unusable=("q",)))) == ("False", "SpecNotUsable")


def test_a_class_in_use_cannot_be_deleted() -> None:
    """The engines are named, the first of them."""
    deleting = replace(SEEN, klass=replace(CLASS, deleting=True))
    status = written(replace(deleting, engines=tuple("abcdefg")))
    assert reason(status) == ("False", "DeletionBlocked")
    assert status.conditions[0].message == "engines still name it: a, b, c, d, e and 2 more"
    assert decide(deleting) == Do((RemoveFinalizer(),))
    assert "more" not in written(replace(deleting, engines=("a",))).conditions[0].message


def test_a_class_that_is_not_held_goes() -> None:
    of = replace(CLASS, deleting=True, finalizers=())
    assert decide(replace(SEEN, klass=of)) == Wait("being deleted")


@pytest.mark.parametrize(
    ("raw", "blamed"),
    [
        ({"template": {}}, []),
        ({"template": {"spec": {"hostNetwork": True}}}, ["spec.template.spec.hostNetwork"]),
        (
            {"template": {"spec": {"containers": [{"name": "engine", "command": ["x"]}]}}},
            ["spec.template.spec.containers[engine].command"],
        ),
        (
            {
                "template": {"spec": {"containers": [{"name": "v", "command": ["x"]}]}},
                "profile": {"container": "v", "commandPolicy": "user"},
            },
            [],
        ),
        ({"template": {}, "profile": {"container": 1}}, []),
        ({}, []),
    ],
)
def test_the_template_is_judged_by_the_classs_own_profile(
    raw: dict[str, Any], blamed: list[str]
) -> None:
    assert [fault.path for fault in checks.refused(raw)] == blamed


def test_other_mistakes_are_told_apart() -> None:
    assert checks.unusable({"template": {}, "profile": {"data": "durable"}}) != []
    assert checks.unusable({"template": {}}) == []


def test_patches() -> None:
    as_seen = {"uid": "u", "resourceVersion": "7"}
    assert build.finalizers_patch(replace(CLASS, finalizers=("o",)), held=True) == {
        "metadata": {**as_seen, "finalizers": ["o", CLASS_FINALIZER]}
    }
    assert build.finalizers_patch(CLASS, held=False)["metadata"]["finalizers"] is None
    patch = build.status_patch(CLASS, ClassStatus(observed_generation=3))
    assert patch == {"metadata": as_seen, "status": {"observedGeneration": 3, "boundEngines": 0}}
