"""Checking an object against a compiled schema, with the real server's paths and reasons.

Check.run ──► _value (types, ranges, required, logic) ──► schema_shape (lists, embedded resources)
         └──► ratchet: errors in parts that an update leaves unchanged are dropped

Paths are linked tuples `(parent, part)` that become text only when something is wrong, so a valid
object pays nothing for them. A part is a field name, or an index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from boilerhouse.embedded.apiserver.schemas.node import (
    MISSING,
    NOTHING,
    Baseline,
    Bound,
    Logic,
    Node,
    Number,
    Text,
)
from boilerhouse.embedded.apiserver.schemas.ratchet import unchanged
from boilerhouse.embedded.apiserver.schemas.regex import MAX_EFFORT, Pattern
from boilerhouse.embedded.apiserver.schemas.shape import embedded_causes, list_causes
from boilerhouse.platform.kube.status import (
    Cause,
    invalid_value,
    required,
    too_long,
    too_many,
    type_invalid,
    unsupported_value,
)

Path = tuple[Any, Any] | None
# What the server says for an error that has no field of its own: a failed anyOf, for one.
NO_FIELD = "<nil>"
_INT64 = 2**63
_JSON_INTEGER = 2**53  # beyond it a float no longer counts as a whole number
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}


class Flaw(NamedTuple):
    """Something wrong at `path`; `cause.field` is filled in from it unless already there."""

    path: Path
    cause: Cause


class Check:
    """Validation of whole objects of one kind."""

    __slots__ = ("_root", "_status")

    def __init__(self, root: Node) -> None:
        self._root = root
        self._status = root.props.get("status")

    def run(
        self,
        body: dict[str, Any],
        old: dict[str, Any] | None,
        *,
        status: bool,
        baseline: Baseline,
    ) -> list[Cause]:
        flaws: list[Flaw] = []
        root = self._root
        if not status:
            _value(root, body, None, flaws, baseline)
        elif self._status is not None and "status" in body:
            was = baseline.get("status", MISSING)
            if body["status"] is not was:
                _value(self._status, body["status"], (None, "status"), flaws, was)
        causes: list[Cause] = []
        if flaws:
            if old is not None:
                flaws = [f for f in flaws if not unchanged(root, body, old, parts(f.path))]
            causes += [
                flaw.cause if flaw.cause.field else flaw.cause._replace(field=render(flaw.path))
                for flaw in dict.fromkeys(flaws)
            ]
        if root.embeds_below and not status:
            causes += embedded_causes(root, body, "")
        if root.lists_below:
            duplicates = list_causes(root, body, "", baseline)
            if duplicates and not (old is not None and list_causes(root, old, "")):
                causes += duplicates
        return causes


def parts(path: Path) -> list[Any]:
    found: list[Any] = []
    while path is not None:
        path, part = path
        found.append(part)
    found.reverse()
    return found


def render(path: Path) -> str:
    """Write a path as the server does: `spec.ports[0].name`."""
    text = ""
    for part in parts(path):
        text += f"[{part}]" if part.__class__ is int else f".{part}" if text else part
    return text or NO_FIELD


def _value(node: Node, value: Any, path: Path, flaws: list[Flaw], baseline: Any = NOTHING) -> None:
    cls = value.__class__
    if cls not in node.accepts:
        _mismatch(node, value, path, flaws)
    if node.logic is not None and value is not None:
        _logic(node.logic, value, path, flaws)
    if cls is str:
        if node.text is not None:
            _text(node.text, value, path, flaws)
    elif cls is dict:
        _object(node, value, path, flaws, baseline)
    elif cls is list:
        _array(node, value, path, flaws)
    elif cls is int or cls is float:
        if cls is int and not -_INT64 <= value < _INT64 and float not in node.accepts:
            _type(path, value, node.type_names, "number", flaws)
        if node.number is not None:
            _number(node.number, value, path, flaws)
    if node.enum is not None and not _listed(node, value):
        names = [v if isinstance(v, str) else str(v) for v in node.enum]
        flaws.append(Flaw(path, unsupported_value("", value, names)))


def _mismatch(node: Node, value: Any, path: Path, flaws: list[Flaw]) -> None:
    if value is None:
        if node.typed:
            _type(path, "null", node.type_names, "null", flaws)
        return
    cls = value.__class__
    whole = cls is float and int in node.accepts and value.is_integer()
    if whole and abs(value) <= _JSON_INTEGER:
        return
    _type(path, _NAMES.get(cls, "object"), node.type_names, _NAMES.get(cls, "object"), flaws)


def _type(path: Path, value: Any, expected: str, actual: str, flaws: list[Flaw]) -> None:
    message = f"{_shown(path)}must be of type {expected}: {actual!r}"
    flaws.append(Flaw(path, type_invalid("", value, message)))


def _shown(path: Path) -> str:
    where = render(path)
    return "" if where == NO_FIELD else f"{where} in body "


def _listed(node: Node, value: Any) -> bool:
    if node.enum_set is not None:
        return value.__class__ is str and value in node.enum_set
    if value is None:  # never in an enum, even one that lists null
        return False
    return any(_same(value, each) for each in node.enum or ())


def _same(a: Any, b: Any) -> bool:
    """Compare JSON values: true is not 1."""
    if (a.__class__ is bool) != (b.__class__ is bool):
        return False
    return bool(a == b)


def _text(text: Text, value: str, path: Path, flaws: list[Flaw]) -> None:
    # One complaint about length or pattern is enough, as the server has it; format is apart.
    if text.most is not None and len(value) > text.most:
        flaws.append(Flaw(path, too_long("", text.most)))
    elif text.least is not None and len(value) < text.least:
        message = f"{_shown(path)}should be at least {text.least} chars long"
        flaws.append(Flaw(path, invalid_value("", value, message)))
    elif text.pattern is not None:
        _pattern(text.pattern, text.written, value, path, flaws)
    if text.is_format is not None and not text.is_format(value):
        message = f'{_shown(path)}must be of type {text.format}: "{value}"'
        flaws.append(Flaw(path, type_invalid("", value, message)))


def _pattern(pattern: Pattern, written: str, value: str, path: Path, flaws: list[Flaw]) -> None:
    if pattern.effort(value) > MAX_EFFORT:
        # The value is left out: a megabyte of it would be the answer's.
        message = f"{_shown(path)}is too long to be matched against '{written}'"
        flaws.append(Flaw(path, invalid_value("", f"{value[:64]}…", message)))
    elif not pattern.matches(value):
        message = f"{_shown(path)}should match '{written}'"
        flaws.append(Flaw(path, invalid_value("", value, message)))


def _number(number: Number, value: float, path: Path, flaws: list[Flaw]) -> None:
    whole = isinstance(value, int)
    if whole and number.low <= value <= number.high:
        return
    if number.multiple is not None and not _is_multiple(value, number.multiple):
        message = f"{_shown(path)}should be a multiple of {number.multiple}"
        flaws.append(Flaw(path, invalid_value("", value, message)))
    if number.maximum is not None and _beyond(value, number.maximum, whole, 1):
        word = "less than" if number.maximum.exclusive else "less than or equal to"
        message = f"{_shown(path)}should be {word} {number.maximum.limit}"
        flaws.append(Flaw(path, invalid_value("", value, message)))
    if number.minimum is not None and _beyond(value, number.minimum, whole, -1):
        word = "greater than" if number.minimum.exclusive else "greater than or equal to"
        message = f"{_shown(path)}should be {word} {number.minimum.limit}"
        flaws.append(Flaw(path, invalid_value("", value, message)))


def _beyond(value: float, bound: Bound, whole: bool, sign: int) -> bool:
    # For an integer the server cuts the bound's fraction off.
    limit = int(bound.limit) if whole else bound.limit
    difference = (value - limit) * sign
    return difference >= 0 if bound.exclusive else difference > 0


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int):
        step = int(factor)
        return step > 0 and value % step == 0
    quotient = value / factor if factor >= 1 else 1 / factor * value
    return quotient.is_integer() and abs(quotient) <= _JSON_INTEGER


def _size(
    least: int | None,
    most: int | None,
    what: str,
    value: dict[str, Any] | list[Any],
    path: Path,
    flaws: list[Flaw],
) -> None:
    count = len(value)
    if least is not None and count < least:
        message = f"{_shown(path)}should have at least {least} {what}"
        flaws.append(Flaw(path, invalid_value("", count, message)))
    if most is not None and count > most:
        flaws.append(Flaw(path, too_many("", count, most)))


def _object(
    node: Node,
    value: dict[str, Any],
    path: Path,
    flaws: list[Flaw],
    baseline: Any,
) -> None:
    if baseline.__class__ is not dict:
        baseline = NOTHING
    if node.limited:
        _size(node.least_props, node.most_props, "properties", value, path, flaws)
    props, extra = node.props, node.additional
    for key, item in value.items():
        child = props.get(key, extra)
        if child is None:
            if node.closed:
                message = f"{_shown(path)}{key} is a forbidden property"
                flaws.append(Flaw(path, invalid_value("", key, message)))
        elif not (child.plain and item.__class__ in child.accepts):
            was = baseline.get(key, MISSING)
            if item is not was:
                _value(child, item, (path, key), flaws, was)
    for name in node.required:
        if name not in value:
            flaws += (Flaw((path, name), required("")),)


def _array(node: Node, value: list[Any], path: Path, flaws: list[Flaw]) -> None:
    if node.limited:
        _size(node.least_items, node.most_items, "items", value, path, flaws)
    if node.unique and any(_same(a, b) for i, a in enumerate(value) for b in value[:i]):
        flaws.append(Flaw(path, invalid_value("", "", f"{_shown(path)}shouldn't have duplicates")))
    items = node.items
    if items is not None:
        for index, item in enumerate(value):
            if not (items.plain and item.__class__ in items.accepts):
                _value(items, item, (path, index), flaws)


def _logic(logic: Logic, value: Any, path: Path, flaws: list[Flaw]) -> None:
    if logic.any_of:
        tried = [_tried(node, value, path) for node in logic.any_of]
        if all(tried):
            flaws.append(_alone(path, "must validate at least one schema (anyOf)"))
            flaws += _best(logic.any_of, tried, value)
    if logic.one_of:
        tried = [_tried(node, value, path) for node in logic.one_of]
        valid = sum(not each for each in tried)
        if valid != 1:
            found = f"found {valid} valid alternatives" if valid else "found none valid"
            flaws.append(_alone(path, f"must validate one and only one schema (oneOf): {found}"))
            if not valid:
                flaws += _best(logic.one_of, tried, value)
    if logic.all_of:
        tried = [_tried(node, value, path) for node in logic.all_of]
        for each in tried:
            flaws += each
        if any(tried):
            flaws.append(_alone(path, "must validate all the schemas (allOf)"))
    if logic.negated is not None and not _tried(logic.negated, value, path):
        flaws.append(_alone(path, "must not validate the schema (not)"))


def _tried(node: Node, value: Any, path: Path) -> list[Flaw]:
    flaws: list[Flaw] = []
    _value(node, value, path, flaws)
    return flaws


def _alone(path: Path, message: str) -> Flaw:
    where = render(path)
    return Flaw(path, invalid_value(NO_FIELD, "", f'"{where}" {message}'))


def _best(nodes: tuple[Node, ...], tried: list[list[Flaw]], value: Any) -> list[Flaw]:
    """Return the complaints of the alternative that looked at the most; the first, if equal."""
    efforts = [_effort(node, value) for node in nodes]
    return tried[efforts.index(max(efforts))]


def _effort(node: Node, value: Any) -> int:
    """Count the checks that one alternative makes of a value, as the server counts them."""
    if value is None:
        return 1
    count = 4 + 2 * bool(node.typed or (node.text is not None and node.text.is_format is not None))
    cls = value.__class__
    if cls is str:
        count += 1 + (node.text is not None and node.text.is_format is not None)
    elif cls is int or cls is float:
        count += 2
    elif cls is list:
        count += 2 + sum(_effort(node.items, item) for item in value if node.items is not None)
    elif cls is dict:
        count += 1
        for key, item in value.items():
            child = node.props.get(key) or node.additional
            if child is not None:
                count += _effort(child, item)
    if node.logic is not None:
        for nodes in (node.logic.all_of, node.logic.any_of, node.logic.one_of):
            count += sum(_effort(child, value) for child in nodes)
    return count
