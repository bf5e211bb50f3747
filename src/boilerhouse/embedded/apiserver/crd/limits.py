"""How large the schema of a definition may be: counted before anything in it is compiled.

schema ─► limit_causes ─► rules, patterns, defaults ─► causes

A real server bounds what one expression may be, by its length, and what all rules may cost, by an
estimate. Here the estimate is the length of all of them, since that is what compiling costs; what
they cost when they run is bounded then (cel/budget.py). The largest definitions that are published
have a tenth of what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from boilerhouse.platform.kube.status import Cause, forbidden_field, invalid_value

EXPRESSION: Final = 100_000  # code points, as a real server has it
EXPRESSIONS: Final = 500_000  # code points of all of them
RULES: Final = 10_000
PATTERNS: Final = 10_000
PATTERN_BYTES: Final = 500_000
DEFAULTED: Final = 20_000  # schemas that defaults are held against, one in another counted twice

_RULES_KEY: Final = "x-kubernetes-validations"


class _Counts:
    def __init__(self) -> None:
        self.rules = self.expressions = self.patterns = self.pattern_bytes = self.defaulted = 0
        self.causes: list[Cause] = []


def limit_causes(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return what of a schema is more than a server should compile."""
    counts = _Counts()
    _count(schema, path, counts)
    causes = counts.causes
    for name, found, most in (
        ("validation rules", counts.rules, RULES),
        ("code points in validation rules", counts.expressions, EXPRESSIONS),
        ("patterns", counts.patterns, PATTERNS),
        ("bytes in patterns", counts.pattern_bytes, PATTERN_BYTES),
        ("schemas with defaults, nested ones counted again", counts.defaulted, DEFAULTED),
    ):
        if found > most:
            message = f"the total for the entire OpenAPIv3 schema exceeds the limit: {found} {name}"
            causes.append(forbidden_field(path, f"{message}, at most {most} are allowed"))
    return causes


def _count(schema: Mapping[str, Any], path: str, counts: _Counts) -> int:
    """Count a schema and those below; return how many they are."""
    size = 1
    for child, where in _children(schema, path):
        size += _count(child, where, counts)
    if isinstance(pattern := schema.get("pattern"), str):
        counts.patterns += 1
        counts.pattern_bytes += len(pattern)
    if schema.get("default") is not None:
        counts.defaulted += size
    rules = schema.get(_RULES_KEY)
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        counts.rules += 1
        for key in ("rule", "messageExpression"):
            text = rule.get(key) if isinstance(rule, Mapping) else None
            if not isinstance(text, str):
                continue
            counts.expressions += len(text)
            if len(text) > EXPRESSION:
                message = (
                    "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds "
                    f"limit: size: {len(text)}, limit {EXPRESSION}"
                )
                field = f"{path}.{_RULES_KEY}[{index}].{key}"
                counts.causes.append(invalid_value(field, text, message))
    return size


def _children(schema: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(child, Mapping):
            yield child, f"{path}.properties[{name}]"
    for key in ("items", "additionalProperties", "not"):
        if isinstance(child := schema.get(key), Mapping):
            yield child, f"{path}.{key}"
    for key in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(schema.get(key) or ()):
            if isinstance(child, Mapping):
                yield child, f"{path}.{key}[{index}]"
