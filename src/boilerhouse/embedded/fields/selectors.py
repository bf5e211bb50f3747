"""Label and field selectors: which objects a list, a watch or a policy is about.

?labelSelector=app=web,tier in (a,b)  ─► label_selector() ─► LabelSelector.matches(labels)
{matchLabels: …, matchExpressions: …} ─► object_selector() ─┘
?fieldSelector=status.phase!=Running  ─► field_selector() ─► FieldSelector.matches(body)

Parsed once per request, matched once per object. What cannot be parsed is 400, as on a real server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from boilerhouse.platform.kube.status import BadRequest

Body = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_label_key(text: str) -> bool:
    """Whether a text is a legal label key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return not text or _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    # "in" and "notin" cover = == !=; "exists", "absent", "gt", "lt" speak for themselves.
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that all have to hold. Without conditions it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        have = labels or {}
        return all(requirement.matches(have) for requirement in self.requirements)


EVERYTHING = LabelSelector()

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TOKEN = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", ",", "(", ")", "<", ">"})
_END = ""


class _Tokens:
    """The words of a label selector, one ahead."""

    def __init__(self, text: str) -> None:
        self._words = [match[1] for match in _TOKEN.finditer(text)]
        self._at = 0

    def peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else _END

    def take(self) -> str:
        word = self.peek()
        self._at += 1
        return word


@lru_cache(maxsize=1024)
def label_selector(text: str) -> LabelSelector:
    """Parse what stands in `?labelSelector=`."""
    tokens = _Tokens(text)
    if tokens.peek() == _END:
        return EVERYTHING
    requirements = []
    while True:
        requirements.append(_requirement(tokens))
        word = tokens.take()
        if word == _END:
            return LabelSelector(tuple(requirements))
        if word != ",":
            raise BadRequest(f"found '{word}', expected: ',' or 'end of string'")


def _requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.take()
    key = tokens.take()
    if key == _END or key in _SYMBOLS:
        raise BadRequest(f"found '{key}', expected: identifier")
    if not is_label_key(key):
        raise BadRequest(f'unable to parse requirement: "{key}" is no legal label key')
    if negated:
        return Requirement(key, "absent")
    match tokens.peek():
        case "," | "":
            return Requirement(key, "exists")
        case "=" | "==":
            tokens.take()
            return Requirement(key, "in", frozenset({_value(tokens)}))
        case "!=":
            tokens.take()
            return Requirement(key, "notin", frozenset({_value(tokens)}))
        case "in" | "notin" as operator:
            tokens.take()
            return Requirement(key, operator, _values(tokens))
        case "<" | ">" as sign:
            tokens.take()
            bound = _value(tokens)
            if not _INTEGER.fullmatch(bound):
                raise BadRequest(
                    f'unable to parse requirement: values[0]: Invalid value: "{bound}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return Requirement(key, "gt" if sign == ">" else "lt", frozenset({bound}))
        case other:
            raise BadRequest(
                f"unable to parse requirement: found '{other}', "
                "expected: in, notin, =, ==, !=, gt, lt"
            )


def _value(tokens: _Tokens) -> str:
    """Read the value after an operator; nothing at all is the empty value."""
    word = tokens.peek()
    if word in (_END, ","):
        return ""
    if word in _SYMBOLS:
        raise BadRequest(f"unable to parse requirement: found '{word}', expected: identifier")
    return _checked_value(tokens.take())


def _values(tokens: _Tokens) -> frozenset[str]:
    """Read `(a, b)`; a value left out between commas is the empty value."""
    if tokens.take() != "(":
        raise BadRequest("unable to parse requirement: expected: '('")
    values: set[str] = set()
    while True:
        if tokens.peek() in (",", ")"):
            values.add("")
        else:
            word = tokens.take()
            if word == _END or word in _SYMBOLS:
                raise BadRequest(
                    f"unable to parse requirement: found '{word}', expected: ',' or ')'"
                )
            values.add(_checked_value(word))
        word = tokens.take()
        if word == ")":
            return frozenset(values)
        if word != ",":
            raise BadRequest(f"unable to parse requirement: found '{word}', expected: ',' or ')'")


def _checked_value(text: str) -> str:
    if not is_label_value(text):
        raise BadRequest(f'unable to parse requirement: "{text}" is no legal label value')
    return text


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def object_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Compile the LabelSelector of an object. An empty one matches everything.

    What an absent selector means is the field's business: nothing, mostly.
    """
    requirements = [
        Requirement(key, "in", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise BadRequest(
                f"{expression.get('operator')!r} is not a valid label selector operator"
            )
        values = frozenset(expression.get("values") or ())
        requirements.append(Requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(requirements))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions on fields that all have to hold."""

    # (path, how to read it, the value, whether it has to be equal)
    terms: tuple[tuple[str, Callable[[Body], str], str, bool], ...] = ()

    def matches(self, body: Body) -> bool:
        return all((read(body) == value) is equal for _, read, value, equal in self.terms)

    def exactly(self, path: str) -> str | None:
        """Return the one value a path must have, so that a list need not look at everything."""
        return next((value for term, _, value, equal in self.terms if equal and term == path), None)


def _name(body: Body) -> str:
    return str(body["metadata"].get("name", ""))


def _namespace(body: Body) -> str:
    return str(body["metadata"].get("namespace", ""))


# Selectable for every kind.
_COMMON: Mapping[str, Callable[[Body], str]] = {
    "metadata.name": _name,
    "metadata.namespace": _namespace,
}


def field_selector(text: str, selectable: Mapping[str, Callable[[Body], str]]) -> FieldSelector:
    """Parse what stands in `?fieldSelector=`, for a kind with these selectable fields."""
    terms = []
    for term in _split(text):
        if not term:
            continue
        path, value, equal = _term(term)
        read = selectable.get(path) or _COMMON.get(path)
        if read is None:
            raise BadRequest(f"field label not supported: {path}")
        terms.append((path, read, value, equal))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return [match[0] for match in re.finditer(r"(?:\\.|\\\Z|[^,\\])+", text, re.DOTALL)]


_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


def _term(term: str) -> tuple[str, str, bool]:
    match = _TERM.fullmatch(term)
    if match is None:
        raise BadRequest(f"invalid selector: '{term}'; can't understand '{term}'")
    path, operator, value = match.groups()
    return path, _unescaped(value), operator != "!="


def _unescaped(value: str) -> str:
    result = []
    characters = iter(value)
    for character in characters:
        if character in ",=":
            raise BadRequest(f"invalid field selector: unescaped character in value: {character}")
        if character == "\\":
            character = next(characters, "")
            if character not in ("\\", ",", "="):
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{character}")
        result.append(character)
    return "".join(result)
