"""The operators of CEL as closures, chosen by the types of their operands.

compile.Compiler ──► arithmetic, logic ──► run

Equality follows the schema: lists of type set and map compare without regard to order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from boilerhouse.embedded.apiserver.cel import budget
from boilerhouse.embedded.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Compiled,
    Env,
    Run,
    Type,
    agree,
    list_of,
)
from boilerhouse.embedded.apiserver.cel.values import (
    CelError,
    Duration,
    Timestamp,
    divide,
    divide_floats,
    equal,
    in_range,
    ordered,
    remainder,
)
from boilerhouse.embedded.apiserver.schemas import ratchet

Function = Callable[[Any, Any], Any]
# Steps of comparing two items of a list, beside what their own lengths cost.
COMPARISON: Final = 8
_NUMBERS: Final = ("int", "double")
_ORDERED: Final = ("int", "double", "string", "bytes", "bool", "timestamp", "duration")


def _put_together(a: Any, b: Any) -> Any:
    budget.make(len(a) + len(b))
    return a + b


# (operator, kind, kind) -> result, function
_MATHS: Final[dict[tuple[str, str, str], tuple[Type, Function]]] = {
    ("+", "int", "int"): (INT, lambda a, b: in_range(a + b)),
    ("-", "int", "int"): (INT, lambda a, b: in_range(a - b)),
    ("*", "int", "int"): (INT, lambda a, b: in_range(a * b)),
    ("/", "int", "int"): (INT, divide),
    ("%", "int", "int"): (INT, remainder),
    ("+", "double", "double"): (DOUBLE, lambda a, b: a + b),
    ("-", "double", "double"): (DOUBLE, lambda a, b: a - b),
    ("*", "double", "double"): (DOUBLE, lambda a, b: a * b),
    ("/", "double", "double"): (DOUBLE, divide_floats),
    ("+", "string", "string"): (STRING, _put_together),
    ("+", "bytes", "bytes"): (BYTES, _put_together),
    ("+", "timestamp", "duration"): (TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
    ("+", "duration", "timestamp"): (TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
    ("+", "duration", "duration"): (DURATION, lambda a, b: Duration(a.nanos + b.nanos)),
    ("-", "timestamp", "timestamp"): (DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
    ("-", "timestamp", "duration"): (TIMESTAMP, lambda a, b: Timestamp(a.nanos - b.nanos)),
    ("-", "duration", "duration"): (DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
}
_KINDS: Final = {
    int: "int", float: "double", str: "string", bytes: "bytes", bool: "bool",
    Timestamp: "timestamp", Duration: "duration", list: "list",
}  # fmt: skip


def truth(value: Any) -> bool:
    if value.__class__ is not bool:
        raise CelError("no such overload")
    decided: bool = value
    return decided


def logic(name: str, runs: list[Run]) -> Run:
    """Return `!`, or an `&&` or `||` that one side's error does not spoil if the other decides."""
    if name == "!":
        only = runs[0]
        return lambda env: not truth(only(env))
    left, right = runs
    decides = name == "||"

    def both(env: Env) -> bool:
        try:
            first = truth(left(env))
        except CelError:
            if truth(right(env)) is decides:
                return decides
            raise
        return first if first is decides else truth(right(env))

    return both


def arithmetic(name: str, types: list[Type], runs: list[Run]) -> tuple[Type, Run] | None:
    """Return result type and closure of any other operator, or None if the types do not fit."""
    if len(types) == 1:
        return _negative(types[0], runs[0])
    left, right = types
    a, b = runs
    if name in ("==", "!="):
        if not agree(left, right):
            return None
        same = equality(left, right)
        if name == "==":
            return BOOL, lambda env: same(a(env), b(env))
        return BOOL, lambda env: not same(a(env), b(env))
    if name == "in":
        return _inside(left, right, a, b)
    if name in ("<", "<=", ">", ">="):
        return _compare(name, left, right, a, b)
    if left.kind == "dyn" or right.kind == "dyn":
        return DYN, lambda env: _dynamic(name, a(env), b(env))
    if name == "+" and left.kind == right.kind == "list":
        return _concatenate(left, right, a, b)
    found = _MATHS.get((name, left.kind, right.kind))
    if found is None:
        return None
    result, function = found
    return result, lambda env: function(a(env), b(env))


def _negative(operand: Type, run: Run) -> tuple[Type, Run] | None:
    if operand.kind == "int":
        return INT, lambda env: in_range(-run(env))
    return (DOUBLE, lambda env: -run(env)) if operand.kind == "double" else None


def _compare(name: str, left: Type, right: Type, a: Run, b: Run) -> tuple[Type, Run] | None:
    function = ordered(name)
    if "dyn" in (left.kind, right.kind):

        def compare(env: Env) -> bool:
            x, y = a(env), b(env)
            kinds = (_KINDS.get(x.__class__, ""), _KINDS.get(y.__class__, ""))
            if kinds[0] != kinds[1] and not all(kind in _NUMBERS for kind in kinds):
                raise CelError(f"no such overload: _{name}_")
            if kinds[0] not in _ORDERED:
                raise CelError(f"no such overload: _{name}_")
            return function(x, y)

        return BOOL, compare
    both_numbers = left.kind in _NUMBERS and right.kind in _NUMBERS
    if not both_numbers and (left.kind != right.kind or left.kind not in _ORDERED):
        return None
    return BOOL, lambda env: function(a(env), b(env))


def _dynamic(name: str, a: Any, b: Any) -> Any:
    if name == "+" and a.__class__ is list and b.__class__ is list:
        budget.spend(len(a) + len(b))
        return a + b
    found = _MATHS.get((name, _KINDS.get(a.__class__, ""), _KINDS.get(b.__class__, "")))
    if found is None:
        raise CelError(f"no such overload: _{name}_")
    return found[1](a, b)


def _inside(left: Type, right: Type, a: Run, b: Run) -> tuple[Type, Run] | None:
    if right.kind == "list":
        element = right.element or DYN
        if not agree(left, element):
            return None
        same, convert = equality(left, element), element.convert

        def contains(env: Env) -> bool:
            wanted = a(env)
            for item in b(env):
                budget.spend(COMPARISON)
                if same(wanted, item if convert is None else convert(item)):
                    return True
            return False

        return BOOL, contains
    if right.kind == "map" and agree(left, right.key or DYN):
        return BOOL, lambda env: a(env) in b(env)
    if right.kind == "dyn":

        def search(env: Env) -> bool:
            wanted, values = a(env), b(env)
            if values.__class__ not in (list, dict):
                raise CelError("no such overload: in")
            return any(equal(wanted, value) for value in paid(values))

        return BOOL, search
    return None


def _concatenate(left: Type, right: Type, a: Run, b: Run) -> tuple[Type, Run] | None:
    if not agree(left, right) or (left.node is not None and left.node.list_type == "map"):
        return None
    cook_a, cook_b = cooker(left) or _as_is, cooker(right) or _as_is
    union = left.node is not None and left.node.list_type == "set"

    def add(env: Env) -> list[Any]:
        first, second = cook_a(a(env)), cook_b(b(env))
        budget.spend(len(first) + len(second))
        if not union:
            return [*first, *second]
        return [*first, *(item for item in second if not any(equal(item, x) for x in paid(first)))]

    return list_of(left.element or DYN), add


def paid(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items, each at the price of a comparison."""
    for item in items:
        budget.spend(COMPARISON)
        yield item


def _as_is(value: Any) -> Any:
    return value


def cooker(given: Type) -> Callable[[Any], Any] | None:
    """Return what turns JSON of this type into finished values, or None if that is nothing."""
    if given.node is None or given.kind not in ("list", "map") or given.element is None:
        return None
    element = given.element
    cook = element.convert or cooker(element)
    if cook is None:
        return None
    if given.kind == "list":
        return lambda value: [cook(item) for item in paid(value)]
    return lambda value: {key: cook(value[key]) for key in paid(value)}


def finished(compiled: Compiled) -> Run:
    """Return a run whose value no longer depends on the schema: JSON leaves are converted."""
    cook = cooker(compiled.type)
    run = compiled.run
    return run if cook is None else lambda env: cook(run(env))


def equality(left: Type, right: Type) -> Function:
    """Return a comparison for values of these types (JSON below them, where a schema is known)."""
    if left.kind == "object" and right.kind == "object" and left.node is not None:
        return _same_objects(left)
    if left.kind == "list" and right.kind == "list" and left.element and right.element:
        return _same_lists(left, right)
    if left.kind == "map" and right.kind == "map" and left.element and right.element:
        return _same_maps(left, right)
    return equal


def _leaves(left: Type, right: Type) -> Function:
    same, a, b = equality(left, right), left.convert, right.convert
    if a is None and b is None:
        return same
    return lambda x, y: same(a(x) if a else x, b(y) if b else y)


def _same_objects(given: Type) -> Function:
    fields = {name: _leaves(each, each) for name, each in (given.fields or {}).values()}

    def same(a: Any, b: Any) -> bool:
        if a is b:  # what a write leaves alone is the stored version's very object
            return True
        if a is None or b is None or len(a) != len(b):
            return False
        budget.spend(COMPARISON * len(a))
        for name, value in a.items():
            if name not in b:
                return False
            other = b[name]
            if value is None or other is None:
                if value is not other:
                    return False
                continue
            compare: Function = fields.get(name, equal)
            if not compare(value, other):
                return False
        return True

    return same


def _same_maps(left: Type, right: Type) -> Function:
    same = _leaves(left.element or DYN, right.element or DYN)
    return lambda a, b: (
        len(a) == len(b) and all(key in b and same(a[key], b[key]) for key in paid(a))
    )


def _same_lists(left: Type, right: Type) -> Function:
    same = _leaves(left.element or DYN, right.element or DYN)
    node = left.node or right.node
    kind = "" if node is None else node.list_type
    if node is not None and kind == "map":

        def same_keyed(a: Any, b: Any) -> bool:
            if len(a) != len(b):
                return False
            budget.spend(COMPARISON * len(b))
            theirs = ratchet.keyed(node, b)
            return all(
                (match := theirs.get(ratchet.key_of(node, item))) is not None and same(item, match)
                for item in paid(a)
            )

        return same_keyed
    if kind == "set":
        return lambda a, b: len(a) == len(b) and all(any(same(x, y) for y in paid(b)) for x in a)

    def same_ordered(a: Any, b: Any) -> bool:
        if len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            budget.spend(COMPARISON)
            if not same(x, y):
                return False
        return True

    return same_ordered
