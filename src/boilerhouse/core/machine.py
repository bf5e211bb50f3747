"""Lifecycles as tables.

One `Machine` per lifecycle, one `Edge` per row. Everything that knows about phases is derived from
the rows, so a lifecycle is changed by changing its table and nothing else:

    table ─┬─► move()           the only way a phase is written
           ├─► status_schema()  enum, transition rule and first phase in the CRD
           ├─► sql_check()      the same enum for a database column
           └─► page()           diagram and tables under docs/lifecycles
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from boilerhouse.core.errors import IllegalTransition

P = TypeVar("P", bound=StrEnum)


class BadTable(ValueError):
    """A lifecycle's table contradicts itself. Raised when the module is imported, so never late."""


@dataclass(frozen=True, slots=True)
class Edge(Generic[P]):
    """One row: the phase may go from `source` to `target`, and `why` it then does."""

    source: P
    target: P
    why: str


@dataclass(frozen=True, slots=True)
class Machine(Generic[P]):
    """A lifecycle over the members of one enum, each with its meaning in one sentence."""

    name: str
    meanings: Mapping[P, str]
    initial: P
    edges: tuple[Edge[P], ...]

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise BadTable(f"{self.name}: " + "; ".join(faults))

    @property
    def phases(self) -> tuple[P, ...]:
        """All phases, in the order in which the enum declares them."""
        return tuple(type(self.initial))

    @property
    def terminal(self) -> frozenset[P]:
        """The phases that nothing leaves."""
        return frozenset(self.phases) - {edge.source for edge in self.edges}

    def allows(self, source: P, target: P) -> bool:
        """Whether `target` may be written over `source`; the same phase may always."""
        return source == target or any(
            edge.source == source and edge.target == target for edge in self.edges
        )

    def move(self, source: P | None, target: P) -> P:
        """Return `target`, or raise IllegalTransition. Without a source only a birth is legal."""
        legal = target == self.initial if source is None else self.allows(source, target)
        if not legal:
            came_from = source or "nothing"
            raise IllegalTransition(f"{self.name}: {came_from} → {target} is not in the table")
        return target

    def path(self, target: P) -> list[P]:
        """Phases of a shortest walk from the initial one to `target`, both included."""
        # Breadth first: `reached` is queue and visited set at once, each phase with the one before.
        reached: dict[P, P | None] = {self.initial: None}
        queue = [self.initial]
        for phase in queue:
            for edge in self.edges:
                if edge.source == phase and edge.target not in reached:
                    reached[edge.target] = phase
                    queue.append(edge.target)
        walk = [target]
        while (before := reached[walk[-1]]) is not None:
            walk.append(before)
        return walk[::-1]

    def _faults(self) -> Iterator[str]:
        pairs = [(edge.source, edge.target) for edge in self.edges]
        for source, target in sorted({pair for pair in pairs if pairs.count(pair) > 1}):
            yield f"edge {source} → {target} is there twice"
        for edge in self.edges:
            if edge.source == edge.target:
                yield f"edge {edge.source} → {edge.target} goes nowhere"
            if not edge.why:
                yield f"edge {edge.source} → {edge.target} does not say why"
        reached = {self.initial}
        while grown := {edge.target for edge in self.edges if edge.source in reached} - reached:
            reached |= grown
        for phase in self.phases:
            if phase not in reached:
                yield f"phase {phase} cannot be reached"
            if not self.meanings.get(phase):
                yield f"phase {phase} has no meaning"


# What a machine gives to others. Functions rather than methods: the table does not know them.


def status_schema(machine: Machine[P]) -> dict[str, object]:
    """Return what a CRD's `status` schema must say about the phase.

    The default lets objects be born in the initial phase, without a first write by anyone.
    """
    pairs = ", ".join(f"['{edge.source}', '{edge.target}']" for edge in machine.edges)
    meanings = " ".join(f"{phase}: {machine.meanings[phase]}" for phase in machine.phases)
    return {
        "default": {"phase": str(machine.initial)},
        "properties": {
            "phase": {
                "type": "string",
                "description": f"Where the object is in its lifecycle. {meanings}",
                "enum": [str(phase) for phase in machine.phases],
                "x-kubernetes-validations": [
                    {
                        "rule": f"self == oldSelf || [oldSelf, self] in [{pairs}]",
                        "message": f"the lifecycle of a {machine.name} has no such transition",
                    }
                ],
            }
        },
    }


# Belongs at the root of the object's schema. A transition rule compares two values, so it does not
# run when the phase is removed, nor when one is written where there was none: without this rule,
# null followed by any phase would walk around the table.
PHASE_STAYS: dict[str, str] = {
    "rule": "!has(oldSelf.status) || !has(oldSelf.status.phase)"
    " || has(self.status) && has(self.status.phase)",
    "message": "status.phase cannot be removed",
}


def sql_check(machine: Machine[P], column: str = "phase") -> str:
    """Return a CHECK condition that holds exactly the machine's phases."""
    phases = ", ".join(f"'{phase}'" for phase in machine.phases)
    return f"{column} IN ({phases})"


def mermaid(machine: Machine[P]) -> str:
    """Draw the machine; only the arrows, since the reasons are in the table below it."""
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    lines += [f"    {edge.source} --> {edge.target}" for edge in machine.edges]
    lines += [f"    {phase} --> [*]" for phase in machine.phases if phase in machine.terminal]
    return "\n".join(lines)


def page(machine: Machine[P]) -> str:
    """Write the machine's page for docs/lifecycles."""
    ends = [str(phase) for phase in machine.phases if phase in machine.terminal]
    rows = {
        "Phases": ["| phase | meaning |", "|---|---|"]
        + [f"| {phase} | {machine.meanings[phase]} |" for phase in machine.phases],
        "Transitions": ["| from | to | when |", "|---|---|---|"]
        + [f"| {edge.source} | {edge.target} | {edge.why} |" for edge in machine.edges],
    }
    lasting = f"It ends in {' or '.join(ends)}." if ends else "It has no last phase."
    parts = [
        f"# {machine.name}",
        f"A {machine.name} is born {machine.initial}. {lasting}",
        f"```mermaid\n{mermaid(machine)}\n```",
        *(f"## {title}\n\n" + "\n".join(lines) for title, lines in rows.items()),
        "Every other transition is refused by the API server.",
    ]
    return "\n\n".join(parts) + "\n"
