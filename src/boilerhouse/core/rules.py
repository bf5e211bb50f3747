"""Rules about several fields at once, each stated once for the API server and for Python.

A schema can bound one field; that two fields exclude each other, or that no directory lies inside
another, takes a rule. The API server evaluates it as CEL, our own code as a Python function. A rule
carries both side by side, and tests hold every pair against the same good and bad values.

    Struct.RULES ─┬─► x-kubernetes-validations   (schema.py)
                  └─► sentences for people       (problems.py)

CEL here keeps to what a Kubernetes 1.29 server and the embedded API both understand, and to
results on which they agree: `size` of a string counts characters on one and bytes on the other, so
lengths are left to `maxLength`, and bytes are counted as `size(bytes(...))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule on one Struct. `field` names the wire field to blame, if it is one alone.

    `holds` is given the decoded Struct. It is None if the rule compares with the object's former
    state, which only the API server knows. It may refuse more than CEL is able to (`beyond_cel`),
    never less: then the operator refuses what the API server had to let through.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None
    field: str = ""
    beyond_cel: bool = False

    def validation(self) -> dict[str, str]:
        """Return the rule as an item of `x-kubernetes-validations`."""
        item = {"rule": self.cel, "message": self.message}
        if self.field:
            item["fieldPath"] = f".{self.field}"
        return item


def rules_of(struct: type[msgspec.Struct]) -> tuple[Rule, ...]:
    """Return the rules that a Struct declares in its class variable RULES."""
    rules: tuple[Rule, ...] = getattr(struct, "RULES", ())
    return rules


def exactly_one_of(*fields: str) -> Rule:
    """Exactly one of these optional wire fields is set."""

    def holds(value: msgspec.Struct) -> bool:
        names = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
        return sum(getattr(value, names[field]) is not None for field in fields) == 1

    present = ", ".join(f"has(self.{field})" for field in fields)
    return Rule(
        cel=f"[{present}].exists_one(there, there)",
        message=f"exactly one of {' and '.join(fields)} must be set",
        holds=holds,
    )


def immutable(what: str) -> Rule:
    """The whole value stays what it was when the object was made."""
    return Rule(cel="self == oldSelf", message=f"{what} cannot be changed", holds=None)
