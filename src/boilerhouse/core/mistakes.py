"""What msgspec finds wrong with a value, in words for people who wrote JSON or YAML.

"Expected `str | null`, got `array` - at `$.a`" ─► "a: must be a string or null, not a list"
"""

from __future__ import annotations

import re

_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_COUNTED = {"str": "characters", "array": "items", "object": "entries"}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}

_AT = re.compile(r" - at `(?:key in )?\$\.?(?P<path>.*)`\Z", re.DOTALL)
_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_REGEX = re.compile(r"Expected `str` matching regex (?P<pattern>.+)", re.DOTALL)
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<bound>[<>]=?) (?P<number>\d+)")
_BOUND = re.compile(r"Expected `(?:int|float)` (?P<bound>[<>]=?) (?P<number>\S+)")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")


def in_words(message: str, meaning: str = "") -> str:
    """Say a message of msgspec in words, led by the field if it names one.

    `meaning`: what a string must be that has to match a pattern, instead of the pattern.
    """
    path = ""
    if at := _AT.search(message):
        path, message = at["path"], message[: at.start()]
    sentence = _sentence(message, meaning)
    return f"{path}: {sentence}" if path and path != "[...]" else sentence


def _sentence(message: str, meaning: str) -> str:
    if found := _TYPE.fullmatch(message):
        wanted = " or ".join(_name(one) for one in found["wanted"].split(" | "))
        return f"must be {wanted}, not {_name(found['got'])}"
    if found := _REGEX.fullmatch(message):
        return f"must be {meaning}" if meaning else f"must match the pattern {found['pattern']}"
    if found := _LENGTH.fullmatch(message):
        counted = _COUNTED.get(found["kind"], "elements")
        return f"must have {_BOUNDS[found['bound']]} {found['number']} {counted}"
    if found := _BOUND.fullmatch(message):
        return f"must be {_BOUNDS[found['bound']]} {found['number']}"
    if found := _MISSING.fullmatch(message):
        return f"the field {found['field']!r} is missing"
    if found := _UNKNOWN.fullmatch(message):
        return f"unknown field {found['field']!r}"
    return message


def _name(kind: str) -> str:
    return _NAMES.get(kind, kind)
