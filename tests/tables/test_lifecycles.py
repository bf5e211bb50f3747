"""Every pair of phases of every lifecycle: what the table says is what code and CRD enforce."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import Any

import cel
import pytest

from boilerhouse.core.crd import CustomResource
from boilerhouse.core.errors import IllegalTransition
from boilerhouse.core.machine import PHASE_STAYS, Machine
from boilerhouse.operator.catalogue import MACHINES, RESOURCES

# The tables once more, as arrows: a lifecycle is not changed by accident.
EXPECTED = {
    "Workload": """
        Creating → Ready Error
        Ready → Creating
        Error → Creating
    """,
    "Pool": """
        Healthy → Degraded Error
        Degraded → Healthy Error
        Error → Degraded
    """,
    "Claim": """
        Pending → Active Error Releasing
        Active → Releasing
        Releasing → Released ReleaseFailed
        Released →
        ReleaseFailed → Releasing Active
        Error → Pending Releasing
    """,
    "Trigger": """
        Active → Error
        Error → Active
    """,
}

BIRTHS = {"Workload": "Creating", "Pool": "Degraded", "Claim": "Pending", "Trigger": "Active"}


def arrows(text: str) -> set[tuple[str, str]]:
    rows = (line.split("→") for line in text.strip().splitlines())
    return {(source.strip(), target) for source, targets in rows for target in targets.split()}


PAIRS = [
    pytest.param(machine, source, target, id=f"{machine.name}-{source}-{target}")
    for machine in MACHINES
    for source in machine.phases
    for target in machine.phases
]
EACH = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
EACH_RESOURCE = pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)


def phase_schema(resource: CustomResource) -> dict[str, Any]:
    schema = resource.schema()["properties"]["status"]["properties"]["phase"]
    assert isinstance(schema, dict)
    return schema


@EACH
def test_table_is_the_expected_one(machine: Machine[StrEnum]) -> None:
    """The lifecycle has exactly these edges and this first phase."""
    found = {(str(edge.source), str(edge.target)) for edge in machine.edges}
    assert found == arrows(EXPECTED[machine.name])
    assert machine.initial == BIRTHS[machine.name]


@pytest.mark.parametrize(("machine", "source", "target"), PAIRS)
def test_move_follows_the_table(
    machine: Machine[StrEnum], source: StrEnum, target: StrEnum
) -> None:
    """`move` gives the target of an edge, or the phase itself, and refuses every other pair."""
    if source == target or (source, target) in arrows(EXPECTED[machine.name]):
        assert machine.move(source, target) is target
    else:
        with pytest.raises(IllegalTransition, match=f"{machine.name}: {source} → {target}"):
            machine.move(source, target)


@pytest.mark.parametrize(("machine", "source", "target"), PAIRS)
def test_api_server_rule_follows_the_table(
    machine: Machine[StrEnum], source: StrEnum, target: StrEnum
) -> None:
    """The CRD's transition rule allows exactly the pairs that `move` allows."""
    resource = next(one for one in RESOURCES if one.machine is machine)
    (validation,) = phase_schema(resource)["x-kubernetes-validations"]
    verdict = cel.evaluate(validation["rule"], {"self": str(target), "oldSelf": str(source)})
    assert verdict is machine.allows(source, target)


@EACH
def test_birth_is_the_first_phase_only(machine: Machine[StrEnum]) -> None:
    """Where there was no phase, only the initial one may be written."""
    for phase in machine.phases:
        if phase == machine.initial:
            assert machine.move(None, phase) is phase
        else:
            with pytest.raises(IllegalTransition, match="nothing"):
                machine.move(None, phase)


@EACH
def test_every_phase_has_a_shortest_walk(machine: Machine[StrEnum]) -> None:
    """`path` leads to every phase from the first one, along edges, never twice through one."""
    for phase in machine.phases:
        walk = machine.path(phase)
        assert (walk[0], walk[-1]) == (machine.initial, phase)
        assert len(set(walk)) == len(walk)
        assert all(machine.allows(a, b) for a, b in itertools.pairwise(walk))


def test_only_released_claims_are_at_their_end() -> None:
    """Nothing leaves Released; every other phase of every lifecycle has a way on."""
    assert {(m.name, str(phase)) for m in MACHINES for phase in m.terminal} == {
        ("Claim", "Released")
    }


@EACH_RESOURCE
def test_crd_holds_the_phases_and_the_birth(resource: CustomResource) -> None:
    """The CRD lists exactly the phases, and objects are born in the initial one."""
    status = resource.schema()["properties"]["status"]
    assert phase_schema(resource)["enum"] == [str(phase) for phase in resource.machine.phases]
    assert status["default"] == {"phase": str(resource.machine.initial)}
    assert PHASE_STAYS in resource.schema()["x-kubernetes-validations"]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({}, {}, True),
        ({"status": {}}, {}, True),
        ({}, {"status": {"phase": "Ready"}}, True),
        ({"status": {"phase": "Ready"}}, {"status": {"phase": "Ready"}}, True),
        ({"status": {"phase": "Ready"}}, {"status": {"phase": "Error"}}, True),
        ({"status": {"phase": "Ready"}}, {"status": {}}, False),
        ({"status": {"phase": "Ready"}}, {"status": {"detail": "x"}}, False),
        ({"status": {"phase": "Ready"}}, {}, False),
    ],
)
def test_a_phase_stays(old: object, new: object, allowed: bool) -> None:
    """The root rule refuses exactly the removal of a phase."""
    assert cel.evaluate(PHASE_STAYS["rule"], {"self": new, "oldSelf": old}) is allowed
