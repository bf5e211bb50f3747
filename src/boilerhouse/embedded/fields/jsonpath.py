r"""JSONPath, as far as printer columns, scale paths and selectable fields use it.

".status.conditions[?(@.type==\"Ready\")].status" ─► compile_path() ─► Path.values(body) ─► [...]

Understood: fields (`.a`, `['a']`, `.a\.b`), `[n]`, `[*]`, `.*`, slices `[a:b:c]`, `..a`, and
filters `[?(@.a == "x")]` with == != < <= > >= between a path and a literal, or a path alone.
Anything else is refused when the path is compiled, with a sentence that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

Step = Callable[[Any], Iterable[Any]]

MAX_PATH = 1024


class BadPath(ValueError):
    """The path cannot be compiled; the message says why."""


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path."""

    text: str
    steps: tuple[Step, ...]

    def values(self, body: Any) -> list[Any]:
        """Return everything the path leads to; what is absent is left out."""
        found = [body]
        for step in self.steps:
            found = [value for here in found for value in step(here)]
        return found

    def first(self, body: Any) -> Any:
        """Return the first value, or None."""
        return next(iter(self.values(body)), None)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile a path, with or without the braces that templates need."""
    if len(text) > MAX_PATH:
        raise BadPath(f"a JSONPath has at most {MAX_PATH} characters")
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    parser = _Parser(inner)
    return Path(text, parser.steps())


_FIELD = re.compile(r"(?:\\.|[^\s.\[\]{}()'\"?,*=!<>&|~\\])+")
_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_SLICE = re.compile(r"\[\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?\]")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_OPERATOR = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def steps(self) -> tuple[Step, ...]:
        if self.text.startswith(("$", "@")):
            self.at = 1
        elif self.text and self.text[0] not in ".[":
            raise BadPath(f"a JSONPath starts with a dot: {self.text!r}")
        found: list[Step] = []
        while self.at < len(self.text):
            found.extend(self._step())
        return tuple(found)

    def _step(self) -> list[Step]:
        if self._eat(".."):
            if self._looking_at("["):
                return [_descend]
            return [_descend, self._name()]
        if self._eat("."):
            if self.at == len(self.text) or self._looking_at("["):
                return []  # ".": the whole; ".[0]" is what some write for "[0]"
            return [self._name()]
        if self._looking_at("["):
            return [self._bracket()]
        raise BadPath(f"not understood at {self.text[self.at :]!r} in {self.text!r}")

    def _name(self) -> Step:
        if self._eat("*"):
            return _every
        match = _FIELD.match(self.text, self.at)
        if match is None:
            raise BadPath(f"a field name is missing at {self.text[self.at :]!r} in {self.text!r}")
        self.at = match.end()
        return _field(re.sub(r"\\(.)", r"\1", match[0]))

    def _bracket(self) -> Step:
        if self._eat("[*]"):
            return _every
        if match := _INDEX.match(self.text, self.at):
            self.at = match.end()
            return _index(int(match[1]))
        if match := _SLICE.match(self.text, self.at):
            self.at = match.end()
            start, stop, pace = (None if part is None else int(part) for part in match.groups())
            if pace is not None and pace < 1:
                raise BadPath(f"a slice steps forward: {self.text!r}")
            return _slice(slice(start, stop, pace))
        if self._eat("[?("):
            return self._filter()
        if match := re.compile(rf"\[\s*({_QUOTED.pattern})\s*\]").match(self.text, self.at):
            self.at = match.end()
            return _field(_unquoted(match[1]))
        raise BadPath(f"not understood at {self.text[self.at :]!r} in {self.text!r}")

    def _filter(self) -> Step:
        left = self._operand()
        operator = ""
        if match := _OPERATOR.match(self.text, self.at):
            self.at = match.end()
            operator = match[1]
            right = self._operand()
        self._skip_spaces()
        if not self._eat(")]"):
            raise BadPath(f"a filter is a comparison of two values: {self.text!r}")
        if not operator:
            return _having(left)
        return _comparing(left, operator, right)

    def _operand(self) -> Step:
        """Read `@.path` or a literal."""
        self._skip_spaces()
        if self._eat("@"):
            found: list[Step] = []
            while self._looking_at(".", "["):
                found.extend(self._step())
            return Path(self.text, tuple(found)).values
        if match := _QUOTED.match(self.text, self.at):
            self.at = match.end()
            return _constant(_unquoted(match[0]))
        for word, value in (("true", True), ("false", False)):
            if self._eat(word):
                return _constant(value)
        if match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
            return _constant(float(match[0]) if match[1] or match[2] else int(match[0]))
        raise BadPath(f"a filter compares @.path with a literal: {self.text!r}")

    def _skip_spaces(self) -> None:
        while self._eat(" "):
            continue

    def _eat(self, word: str) -> bool:
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def _looking_at(self, *words: str) -> bool:
        return self.text.startswith(words, self.at)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _field(name: str) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, dict) and value.get(name) is not None:
            return (value[name],)
        return ()

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _slice(part: slice) -> Step:
    return lambda value: value[part] if isinstance(value, list) else ()


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for child in _every(value):
        yield from _descend(child)


def _constant(value: Any) -> Step:
    return lambda _: (value,)


def _having(path: Step) -> Step:
    """Keep the elements for which the path leads anywhere."""
    return lambda value: [item for item in _every(value) if list(path(item))]


def _comparing(left: Step, operator: str, right: Step) -> Step:
    def keeps(item: Any) -> bool:
        ones, others = list(left(item)), list(right(item))
        return len(ones) == len(others) == 1 and _holds(ones[0], operator, others[0])

    return lambda value: [item for item in _every(value) if keeps(item)]


def _holds(one: Any, operator: str, other: Any) -> bool:
    numbers = _is_number(one) and _is_number(other)
    if not numbers and type(one) is not type(other):
        return operator == "!="
    match operator:
        case "==":
            return bool(one == other)
        case "!=":
            return bool(one != other)
    if not numbers and not isinstance(one, str):
        return False
    match operator:
        case "<":
            return bool(one < other)
        case "<=":
            return bool(one <= other)
        case ">":
            return bool(one > other)
        case _:
            return bool(one >= other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def printed(values: Iterable[Any]) -> str:
    """Write what a path found as one text, as a column or `kubectl -o jsonpath` shows it."""
    return " ".join(_text(value) for value in values)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
