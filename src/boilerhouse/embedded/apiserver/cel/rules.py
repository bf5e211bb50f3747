"""`x-kubernetes-validations`: rules of a schema, compiled at install, checked at every write.

openapi ──► Rules.compile ──► Rules.check(new, old) ──► causes

Rules stand at any level of a schema and see the value there as `self`. A rule that names `oldSelf`
is a transition rule: it runs only when there is an old value that is *the same thing* (fields and
map entries by key, items of map lists by their keys). Any other rule that fails on a part which an
update does not touch is forgiven, as in ratchet.py.

The language is ours (syntax.py, types.py, compile.py and their neighbours; ADR 0008) because a
rule must mean here what it means on a real server: typed by the schema, lengths in characters,
lists of type set compared as sets. A function that is missing is refused by name at install. A real
server also estimates what a rule may cost and refuses dear ones at install; here, as there, what it
does cost is counted and bounded when it runs (budget.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from boilerhouse.embedded.apiserver.cel.budget import PART, TURN, TooExpensive, refill, spend
from boilerhouse.embedded.apiserver.cel.compile import compile_expression, names
from boilerhouse.embedded.apiserver.cel.paths import field_path
from boilerhouse.embedded.apiserver.cel.syntax import parse, parts
from boilerhouse.embedded.apiserver.cel.types import (
    BOOL,
    STRING,
    Run,
    Type,
    agree,
    optional_of,
    type_of,
)
from boilerhouse.embedded.apiserver.cel.values import NONE, CelError, Optional
from boilerhouse.embedded.apiserver.schemas import ratchet
from boilerhouse.embedded.apiserver.schemas.node import Builder, Node
from boilerhouse.embedded.apiserver.schemas.validate import NO_FIELD
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_REASONS: Final = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip
_BLOCKING: Final = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_MAX_MESSAGE = 5 * 1024
_KEY = "x-kubernetes-validations"


class RulesRefused(ValueError):
    """Rules cannot be installed; `causes` has every reason, with the path of each rule."""

    def __init__(self, causes: list[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in causes))
        self.causes = causes


class _Rule(NamedTuple):
    text: str
    run: Run
    transition: bool
    optional_old: bool
    message: str
    message_run: Run | None
    reason: str
    field: str  # relative to the level
    price: int


class _Stopped(Exception):
    """The budget of an object's rules is used up; `cause` says at which of them."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


class _Level(NamedTuple):
    """The rules of one node, and of the nodes below that have any."""

    node: Node
    shown: str  # what stands for the value in messages: the type's name
    rules: tuple[_Rule, ...]
    # Those that compare with an old value, and whether there are such below; those that can be
    # asked without one, and the same.
    transitions: tuple[_Rule, ...]
    transitions_below: bool
    births: tuple[_Rule, ...]
    births_below: bool
    fields: dict[str, _Level]
    items: _Level | None
    entries: _Level | None


# What stands at a node, and the old value it corresponds to.
_Tie = tuple[Node, Any, Any]


def unchecked(causes: Iterable[Cause]) -> Cause | None:
    """Return what a server adds instead of checking rules when the object is too broken for that.

    Rules are written for objects of the right shape; a wrong range or pattern does not stop them.
    """
    if not any(cause.reason in _BLOCKING for cause in causes):
        return None
    return Cause(
        "FieldValueInvalid",
        "Invalid value: null: some validation rules were not checked because the object was "
        "invalid; correct the existing errors to complete validation",
        NO_FIELD,
    )


class Rules:
    """All rules of one kind."""

    __slots__ = ("_root",)

    def __init__(self, root: _Level | None) -> None:
        self._root = root

    @classmethod
    def compile(cls, openapi: Mapping[str, Any], *, path: str = "") -> Rules:
        """Compile every rule of a schema; raise RulesRefused with a cause for each bad one.

        `path` is where the schema itself stands, for the causes' fields.
        """
        causes: list[Cause] = []
        node = Builder().tree(openapi)
        level = _compile(node, path, _Place(root=True), causes)
        if causes:
            raise RulesRefused(causes)
        return cls(level)

    def __bool__(self) -> bool:
        return self._root is not None

    def check(
        self, body: dict[str, Any], old: dict[str, Any] | None = None, *, baseline: bool = False
    ) -> list[Cause]:
        """Return a cause for each rule that a pruned, defaulted and valid object breaks.

        `baseline`: the old object was stored under these rules, so that they need not be asked
        about what is shared with it; transition rules apart.
        """
        causes: list[Cause] = []
        if self._root is not None:
            refill()
            try:
                _check(self._root, "", body, old, None, baseline, causes)
            except _Stopped as stopped:
                causes.append(stopped.cause)
        return causes


class _Place(NamedTuple):
    """Where a level stands. `uncorrelated` names the list that breaks the tie to old values."""

    root: bool = False
    uncorrelated: str = ""


def _compile(node: Node, path: str, place: _Place, causes: list[Cause]) -> _Level | None:
    """Compile a node's rules and those below, or return None when there are none."""
    below = place._replace(root=False)
    fields: dict[str, _Level] = {}
    for name, child in node.props.items():
        level = _compile(child, f"{path}.properties[{name}]", below, causes)
        if level is not None:
            fields[name] = level
    items = entries = None
    if node.additional is not None:
        entries = _compile(node.additional, f"{path}.additionalProperties", below, causes)
    if node.items is not None:
        if node.list_type != "map" and not below.uncorrelated:
            below = below._replace(uncorrelated=path)
        items = _compile(node.items, f"{path}.items", below, causes)
    written = node.openapi.get(_KEY) or ()
    rules: list[_Rule] = []
    if written:
        given = type_of(node, root=place.root or node.embedded)
        for index, rule in enumerate(written):
            where = f"{path}.{_KEY}[{index}]"
            if given is None:
                causes.append(invalid_value(where, rule, "rules cannot see a value of this type"))
            elif compiled := _compile_rule(rule, node, given, where, place, causes):
                rules.append(compiled)
    if not (rules or fields or items or entries):
        return None
    levels = [*fields.values(), *filter(None, (items, entries))]
    return _Level(
        node,
        node.type_names or "object",
        tuple(rules),
        tuple(rule for rule in rules if rule.transition),
        any(level.transitions or level.transitions_below for level in levels),
        tuple(rule for rule in rules if rule.optional_old or not rule.transition),
        any(level.births or level.births_below for level in levels),
        fields,
        items,
        entries,
    )


def _compile_rule(
    rule: Mapping[str, Any],
    node: Node,
    given: Type,
    where: str,
    place: _Place,
    causes: list[Cause],
) -> _Rule | None:
    before = len(causes)
    text = (rule.get("rule") or "").strip()
    message = (rule.get("message") or "").strip()
    expression = (rule.get("messageExpression") or "").strip()
    reason = rule.get("reason") or "FieldValueInvalid"
    if not text:
        causes.append(required(f"{where}.rule", "rule is not specified"))
    elif rule.get("message") and not message:
        causes.append(
            invalid_value(f"{where}.message", rule["message"], "must be non-empty if specified")
        )
    elif _lines(message):
        causes.append(invalid_value(f"{where}.message", message, "must not contain line breaks"))
    elif _lines(text) and not message:
        causes.append(
            required(f"{where}.message", "message must be specified if rule contains line breaks")
        )
    if rule.get("messageExpression") and not expression:
        causes.append(
            required(
                f"{where}.messageExpression", "messageExpression must be non-empty if specified"
            )
        )
    if reason not in _REASONS:
        causes.append(unsupported_value(f"{where}.reason", reason, _REASONS))
    field = ""
    if rule.get("fieldPath"):
        try:
            field = field_path(rule["fieldPath"], node)
        except ValueError:
            causes.append(
                invalid_value(f"{where}.fieldPath", rule["fieldPath"], "must be a valid path")
            )
    if len(causes) > before:
        return None
    optional_old = bool(rule.get("optionalOldSelf"))
    variables = {"self": given, "oldSelf": optional_of(given) if optional_old else given}
    run = _expression(text, variables, BOOL, "bool", f"{where}.rule", "cel expression", causes)
    message_run = None
    if expression:
        message_run = _expression(
            expression, variables, STRING, "string", f"{where}.messageExpression",
            "messageExpression", causes,
        )  # fmt: skip
    transition = run is not None and names(text, "oldSelf")
    if transition and place.uncorrelated:
        message_ = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{place.uncorrelated}"
        )
        causes.append(invalid_value(f"{where}.rule", text, message_))
    if not transition and "optionalOldSelf" in rule:
        message_ = "may not be set if oldSelf is not used in rule"
        causes.append(invalid_value(f"{where}.optionalOldSelf", optional_old, message_))
    if run is None or len(causes) > before:
        return None
    price = TURN + PART * parts(parse(text))
    return _Rule(text, run, transition, optional_old, message, message_run, reason, field, price)


def _expression(
    text: str,
    variables: dict[str, Type],
    wanted: Type,
    named: str,
    where: str,
    what: str,
    causes: list[Cause],
) -> Run | None:
    try:
        compiled = compile_expression(text, variables)
    except ValueError as error:
        causes.append(invalid_value(where, text, f"compilation failed: {error}"))
        return None
    if compiled.type.kind != wanted.kind or not agree(compiled.type, wanted):
        causes.append(invalid_value(where, text, f"{what} must evaluate to a {named}"))
        return None
    return compiled.run


def _lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _check(
    level: _Level,
    path: str,
    new: Any,
    old: Any,
    above: _Tie | None,
    baseline: bool,
    causes: list[Cause],
) -> None:
    """Ask the rules of one level and of those below.

    `above` is the nearest value around this one that has an old one; `baseline`: see `Rules.check`.
    """
    if new is None:
        return
    rules, below, tie = level.rules, True, above
    if old is None:
        rules, below = level.births, level.births_below
    else:
        tie = (level.node, new, old)
        if baseline and new is old:
            # What the other rules say is known: they found the very same value right.
            rules, below = level.transitions, level.transitions_below
    for rule in rules:
        cause = _broken(rule, level, path, new, old)
        if cause is not None and (rule.transition or tie is None or not ratchet.same(*tie)):
            causes.append(cause)
    if not below:
        return
    if new.__class__ is dict:
        _check_fields(level, path, new, old, tie, baseline, causes)
    elif new.__class__ is list and level.items is not None:
        matches = ratchet.keyed(level.node, old) if level.node.list_type == "map" else {}
        for index, item in enumerate(new):
            before = matches.get(ratchet.key_of(level.node, item)) if matches else None
            _check(level.items, f"{path}[{index}]", item, before, tie, baseline, causes)


def _check_fields(
    level: _Level,
    path: str,
    new: dict[str, Any],
    old: Any,
    tie: _Tie | None,
    baseline: bool,
    causes: list[Cause],
) -> None:
    olds = old if old.__class__ is dict else {}
    if level.entries is not None:
        for key, item in new.items():
            _check(level.entries, f"{path}[{key}]", item, olds.get(key), tie, baseline, causes)
    for name, below in level.fields.items():
        if name in new:
            where = f"{path}.{name}" if path else name
            _check(below, where, new[name], olds.get(name), tie, baseline, causes)


def _broken(rule: _Rule, level: _Level, path: str, new: Any, old: Any) -> Cause | None:
    env: dict[str, Any] = {"self": new}
    if rule.optional_old:
        env["oldSelf"] = NONE if old is None else Optional(True, old)
    else:
        env["oldSelf"] = old
    try:
        spend(rule.price)
        if rule.run(env) is True:
            return None
    except TooExpensive:
        message = (
            "validation failed due to running out of cost budget, no further validation rules "
            f"will be run: too expensive is the rule: {rule.message or rule.text}"
        )
        raise _Stopped(invalid_value(path or NO_FIELD, level.shown, message)) from None
    except CelError as error:
        shown = rule.message or rule.text
        message = f"{error} evaluating rule: {shown}"
        return invalid_value(path or NO_FIELD, level.shown, message)
    where = path
    if rule.field:
        where = f"{path}.{rule.field}" if path else rule.field
    return _cause(rule.reason, where or NO_FIELD, level.shown, _message(rule, env))


def _message(rule: _Rule, env: dict[str, Any]) -> str:
    if rule.message_run is not None:
        try:
            said = rule.message_run(env).strip()
        except (CelError, TooExpensive):
            said = ""  # a message that cannot be made must not hide what it is about
        if said and len(said.encode()) <= _MAX_MESSAGE and "\n" not in said:
            return str(said)
    return rule.message or f"failed rule: {rule.text}"


def _cause(reason: str, where: str, shown: str, message: str) -> Cause:
    if reason == "FieldValueForbidden":
        return forbidden_field(where, message)
    if reason == "FieldValueRequired":
        return required(where, message)
    if reason == "FieldValueDuplicate":
        return duplicate(where, shown)
    return invalid_value(where, shown, message)
