"""What a template may say: every refused field by its exact path, all at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from boilerhouse.engines.profile import FIREBOLT, Profile
from boilerhouse.engines.template.rules import (
    RESERVED_VOLUMES,
    Bounds,
    FieldError,
    clashes,
    excesses,
    faults,
)
from boilerhouse.engines.template.table import TABLE, Merge, Place, Shape

USERS = msgspec.convert({"commandPolicy": "user"}, Profile)
ENGINE = "spec.template.spec.containers[engine]"


def paths(template: object, profile: Profile = FIREBOLT) -> list[str]:
    return [fault.path for fault in faults(template, profile)]


def server(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


def placed(place: Place, name: str, value: Any) -> dict[str, Any]:
    if place == Place.METADATA:
        return {"metadata": {name: value}}
    return {"spec": {name: value}} if place == Place.POD else server(**{name: value})


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.merge == Merge.OWNED], ids=lambda row: row.path
)
def test_what_the_operator_owns_is_refused(row: Any) -> None:
    """By the very path, with one sentence."""
    (fault,) = faults(placed(row.place, row.field, 1), FIREBOLT)
    assert str(fault) == f"spec.template.{row.path}: is set by the operator"
    assert faults(placed(row.place, row.field, None), FIREBOLT) == []


@pytest.mark.parametrize("place", Place)
def test_what_is_not_in_the_table_is_refused(place: Place) -> None:
    """A field that Kubernetes gets next year is refused until there is a rule for it."""
    (fault,) = faults(placed(place, "newField", {}), FIREBOLT)
    assert str(fault) == f"spec.template.{place}.newField: is not supported"


GOOD: dict[Shape, Any] = {
    Shape.TEXT: "x",
    Shape.OBJECT: {},
    Shape.TEXTS: {"k": "v"},
    Shape.OBJECTS: [{"name": "x"}],
    Shape.WORDS: ["x"],
    Shape.RESOURCES: {"requests": {"cpu": 1, "memory": "1Gi"}, "claims": [{"name": "gpu"}]},
}
BAD: dict[Shape, list[tuple[Any, str]]] = {
    Shape.TEXT: [(1, "")],
    Shape.OBJECT: [([], "")],
    Shape.TEXTS: [([], ""), ({"k": 1}, "[k]")],
    Shape.OBJECTS: [({}, ""), (["x"], "[0]")],
    Shape.WORDS: [("x", ""), ([1], "[0]")],
    Shape.RESOURCES: [
        ([], ""),
        ({"more": {}}, ".more"),
        ({"limits": []}, ".limits"),
        ({"limits": {"cpu": "much"}}, ".limits.cpu"),
        ({"requests": {"cpu": True}}, ".requests.cpu"),
    ],
}


@pytest.mark.parametrize(
    "row",
    [row for row in TABLE if row.merge != Merge.OWNED and row.field != "containers"],
    ids=lambda row: row.path,
)
def test_shapes_are_checked(row: Any) -> None:
    """A value of the right shape is taken, any other is refused where it is wrong."""
    assert paths(placed(row.place, row.field, GOOD[row.shape]), USERS) == []
    for value, where in BAD[row.shape]:
        found = paths(placed(row.place, row.field, value), USERS)
        assert found == [f"spec.template.{row.path}{where}"]


def test_a_template_is_an_object_of_objects() -> None:
    assert paths([]) == ["spec.template"]
    assert paths({"metadata": [], "spec": [], "status": {}}) == [
        "spec.template.status",
        "spec.template.metadata",
        "spec.template.spec",
    ]
    assert paths({"spec": {"containers": {}}}) == ["spec.template.spec.containers"]
    assert paths({}) == paths({"metadata": None, "spec": None}) == []


def test_the_command_is_the_profiles_unless_it_leaves_it_to_users() -> None:
    template = server(command=["x"], args=["y"])
    assert paths(template) == [f"{ENGINE}.command", f"{ENGINE}.args"]
    assert paths(template, USERS) == []


def test_keys_of_the_operator_are_refused() -> None:
    """In labels and annotations alike; others are free."""
    template = {
        "metadata": {
            "labels": {"firebolt.io/engine": "x", "team": "a"},
            "annotations": {"firebolt.io/x": "y"},
        }
    }
    assert paths(template) == [
        "spec.template.metadata.labels[firebolt.io/engine]",
        "spec.template.metadata.annotations[firebolt.io/x]",
    ]


@pytest.mark.parametrize("name", RESERVED_VOLUMES)
def test_volumes_of_the_operator_are_reserved(name: str) -> None:
    """Neither made nor mounted into the server by a template; a sidecar may mount them."""
    template = server(volumeMounts=[{"name": "mine"}, {"name": name}])
    template["spec"]["volumes"] = [{"name": name}]
    template["spec"]["containers"].append({"name": "side", "volumeMounts": [{"name": name}]})
    assert paths(template) == [
        "spec.template.spec.volumes[0].name",
        f"{ENGINE}.volumeMounts[1].name",
    ]


def test_variables_of_the_operator_are_reserved() -> None:
    template = server(env=[{"name": "MINE"}, {"name": "POD_INDEX"}])
    assert paths(template) == [f"{ENGINE}.env[1].name"]


def test_names_of_containers_are_clear() -> None:
    """Each has one, none twice, and the server is no init container."""
    template = {
        "spec": {
            "containers": [{"name": "engine"}, {"name": "engine"}, {}],
            "initContainers": [{"name": "engine"}, {"name": "a"}, {"name": "a"}],
        }
    }
    assert paths(template) == [
        "spec.template.spec.initContainers[0].name",
        "spec.template.spec.containers[1].name",
        "spec.template.spec.containers[2].name",
        "spec.template.spec.initContainers[2].name",
    ]


def test_sidecars_are_free() -> None:
    """What a sidecar runs is the user's business."""
    sidecar = {"name": "side", "image": "i", "command": ["x"], "ports": [{"containerPort": 1}]}
    assert (
        paths({"spec": {"containers": [sidecar], "initContainers": [{**sidecar, "tty": True}]}})
        == []
    )


def test_all_mistakes_are_told_at_once() -> None:
    template = server(command=["x"], ports=[])
    template["metadata"] = {"name": "x"}
    template["spec"]["hostNetwork"] = True
    assert paths(template) == [
        "spec.template.metadata.name",
        "spec.template.spec.hostNetwork",
        f"{ENGINE}.command",
        f"{ENGINE}.ports",
    ]


def test_a_class_and_its_engine_may_not_use_one_name_twice() -> None:
    """Each template is sound alone; together they would not make a Pod."""

    def template(*names: str) -> dict[str, Any]:
        items = [{"name": name} for name in names]
        return {
            "spec": {
                "containers": [*items, {"name": "engine"}],
                "initContainers": items,
                "volumes": items,
            }
        }

    found = clashes(template("a", "b"), template("b", "c"), FIREBOLT)
    assert [fault.path for fault in found] == [
        "spec.template.spec.containers",
        "spec.template.spec.initContainers",
        "spec.template.spec.volumes",
    ]
    assert all("b is in the class's template already" in fault.message for fault in found)
    assert clashes(template("a"), template("b"), FIREBOLT) == []
    assert clashes({}, {}, FIREBOLT) == []


BOUNDS = Bounds(cpu="32", memory="256Gi", ephemeral_storage="10Ti")


def test_bounds_are_inclusive_and_per_dimension() -> None:
    """As much as the bound is allowed, one thousandth more is not; requests and limits alike."""
    most = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "10Ti", "nvidia.com/gpu": "99"}
    assert excesses({"requests": most, "limits": most}, BOUNDS, "engine") == []
    found = excesses(
        {"requests": {"cpu": "32001m", "memory": "1Gi"}, "limits": {"ephemeral-storage": "11Ti"}},
        BOUNDS,
        "engine",
    )
    assert found == [
        FieldError(f"{ENGINE}.resources.requests.cpu", "32001m is more than 32"),
        FieldError(f"{ENGINE}.resources.limits.ephemeral-storage", "11Ti is more than 10Ti"),
    ]


def test_a_class_that_exceeds_the_bounds_is_named() -> None:
    (found,) = excesses({"limits": {"cpu": 33}}, BOUNDS, "engine", "large")
    assert str(found) == (
        f"{ENGINE}.resources.limits.cpu: 33 is more than 32 (from the class large)"
    )


def test_without_bounds_everything_is_allowed() -> None:
    """Bounds are off unless they are set, each by itself."""
    assert excesses({"limits": {"cpu": "1000"}}, Bounds(), "engine") == []
    assert excesses({"limits": {"cpu": "1000"}}, Bounds(memory="1"), "engine") == []
    assert excesses({"limits": {"cpu": "nonsense"}}, BOUNDS, "engine") == []
