"""A table that contradicts itself is refused, and what is drawn of a table is what it says."""

from __future__ import annotations

import sqlite3
from enum import StrEnum

import pytest

from boilerhouse.core.machine import BadTable, Edge, Machine, mermaid, page, sql_check


class Door(StrEnum):
    OPEN = "Open"
    SHUT = "Shut"
    GONE = "Gone"


MEANINGS = {Door.OPEN: "One can pass.", Door.SHUT: "One cannot.", Door.GONE: "No door."}
OPEN_SHUT = Edge(Door.OPEN, Door.SHUT, "pushed")
SHUT_OPEN = Edge(Door.SHUT, Door.OPEN, "pulled")
SHUT_GONE = Edge(Door.SHUT, Door.GONE, "torn out")
EDGES = (OPEN_SHUT, SHUT_OPEN, SHUT_GONE)


def door(*edges: Edge[Door], meanings: dict[Door, str] = MEANINGS) -> Machine[Door]:
    return Machine(name="Door", meanings=meanings, initial=Door.OPEN, edges=edges)


@pytest.mark.parametrize(
    ("edges", "complaint"),
    [
        ((*EDGES, Edge(Door.OPEN, Door.SHUT, "wind")), "edge Open → Shut is there twice"),
        ((*EDGES, Edge(Door.OPEN, Door.OPEN, "why not")), "edge Open → Open goes nowhere"),
        ((OPEN_SHUT, SHUT_OPEN), "phase Gone cannot be reached"),
        ((SHUT_OPEN, SHUT_GONE), "phase Shut cannot be reached; phase Gone cannot be reached"),
        ((OPEN_SHUT, Edge(Door.SHUT, Door.GONE, "")), "edge Shut → Gone does not say why"),
    ],
)
def test_bad_tables_are_refused(edges: tuple[Edge[Door], ...], complaint: str) -> None:
    """A table with doubled, empty or unexplained edges, or lost phases, cannot be made."""
    with pytest.raises(BadTable, match=f"Door: {complaint}"):
        door(*edges)


def test_every_phase_must_mean_something() -> None:
    """A phase without a meaning would be a blank in the docs and in `kubectl explain`."""
    with pytest.raises(BadTable, match="phase Gone has no meaning"):
        door(*EDGES, meanings={Door.OPEN: "x", Door.SHUT: "y"})


def test_terminal_phases_are_those_nothing_leaves() -> None:
    """Only Gone is final."""
    assert door(*EDGES).terminal == {Door.GONE}


def test_path_is_a_shortest_one() -> None:
    """A longer way round is not taken."""
    machine = door(*EDGES, Edge(Door.OPEN, Door.GONE, "blown away"))
    assert machine.path(Door.GONE) == [Door.OPEN, Door.GONE]
    assert machine.path(Door.OPEN) == [Door.OPEN]


def test_sql_check_lets_in_the_phases_alone() -> None:
    """A database with the check takes every phase and nothing else."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE doors (state TEXT CHECK ({sql_check(door(*EDGES), 'state')}))")
    for phase in Door:
        database.execute("INSERT INTO doors VALUES (?)", (str(phase),))
    with pytest.raises(sqlite3.IntegrityError):
        database.execute("INSERT INTO doors VALUES ('Ajar')")
    database.close()


def test_drawing_has_every_edge() -> None:
    """The diagram shows the birth, each edge and the end."""
    assert mermaid(door(*EDGES)).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Open",
        "    Open --> Shut",
        "    Shut --> Open",
        "    Shut --> Gone",
        "    Gone --> [*]",
    ]


def test_page_explains_phases_and_edges() -> None:
    """The docs page has a row per phase and a row per edge, each with its reason."""
    text = page(door(*EDGES))
    assert "A Door is born Open. It ends in Gone." in text
    for phase, meaning in MEANINGS.items():
        assert f"| {phase} | {meaning} |" in text
    for edge in EDGES:
        assert f"| {edge.source} | {edge.target} | {edge.why} |" in text
