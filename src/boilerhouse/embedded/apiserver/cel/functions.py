"""The functions a rule may call: those of CEL and of Kubernetes' libraries that are honoured here.

compile.py ──► overloads(name) ──► Overload(receiver, takes, gives, run)

Written as signatures, so that the table reads like the documentation. `list` and `map` take any
element; `element` as result is the list's own. What Kubernetes has and this table has not is in
`KNOWN_ELSEWHERE`: it is refused by that name rather than as a spelling mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from boilerhouse.embedded.apiserver.cel import budget
from boilerhouse.embedded.apiserver.cel.operators import paid
from boilerhouse.embedded.apiserver.cel.values import (
    CelError,
    Duration,
    Timestamp,
    divide,
    equal,
    in_range,
    parse_timestamp,
    show,
)
from boilerhouse.embedded.apiserver.schemas import formats
from boilerhouse.embedded.apiserver.schemas.regex import BadPattern, Pattern, compile_re2

_INT_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
# Leading zeros included: Python would count digits for a long time, or refuse to.
_LONGEST_INT: Final = 100
# Steps of a pattern: each call, each new one, each of its characters; and visits to a step.
_MATCH: Final = 40
_NEW_PATTERN: Final = 1000
_PER_CHARACTER: Final = 8
_LONG_PATTERN: Final = 1000
_VISITS: Final = 64
_FLOAT_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

KNOWN_ELSEWHERE: Final = frozenset({
    "format", "quote", "url", "isURL", "getHost", "getHostname", "getPort", "getScheme",
    "getEscapedPath", "getQuery", "quantity", "isQuantity", "sign", "isInteger", "asInteger",
    "asApproximateFloat", "add", "sub", "isLessThan", "isGreaterThan", "compareTo", "ip", "isIP",
    "ip.isCanonical", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "cidr", "isCIDR", "containsIP", "containsCIDR",
    "masked", "prefixLength", "format.named", "validate", "semver", "isSemver", "major", "minor",
    "patch", "uint", "transformList", "transformMap", "transformMapEntry", "authorizer",
})  # fmt: skip


class Overload(NamedTuple):
    """One signature. `receiver` is "" for a free function; `takes` excludes the receiver."""

    receiver: str
    takes: tuple[str, ...]
    gives: str
    run: Callable[..., Any]


_SIGNATURE = re.compile(r"(?:(\w+)\.)?([\w.]+)\(([\w, ]*)\) (\w+(?:\(\w+\))?)")
_TABLE: dict[str, list[Overload]] = {}


def overloads(name: str) -> list[Overload]:
    return _TABLE.get(name, [])


def _add(signature: str, run: Callable[..., Any]) -> None:
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    receiver, name = match[1] or "", match[2]
    if receiver == "sets":  # a library's name, not a type's
        receiver, name = "", f"sets.{name}"
    takes = tuple(part.strip() for part in match[3].split(",") if part.strip())
    _TABLE.setdefault(name, []).append(Overload(receiver, takes, match[4], run))


def _pattern(text: str, written: str) -> Pattern:
    """Return the compiled pattern, paid for: its making, if it is new, and its run over the text.

    Visiting an instruction for a byte is cheaper than a step of ours.
    """
    if len(written) > _LONG_PATTERN:
        budget.spend(_PER_CHARACTER * len(written))
    before = compile_re2.cache_info().misses
    try:
        pattern = compile_re2(written)
    except BadPattern as error:
        raise CelError(f"error parsing regexp: {error}") from error
    if compile_re2.cache_info().misses != before:
        budget.spend(_NEW_PATTERN + _PER_CHARACTER * len(written))
    budget.spend(_MATCH + pattern.effort(text) // _VISITS)
    return pattern


def _matches(text: str, pattern: str) -> bool:
    return _pattern(text, pattern).matches(text)


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    matches = _pattern(text, pattern).find(text)
    while len(found) != limit and (match := next(matches, None)) is not None:
        # The next one may look through all of the rest.
        budget.search(text)
        budget.spend(_MATCH)
        found.append(match)
    return found


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    budget.search(text)
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    budget.search(text)
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    budget.make(stop - start)
    return text[start:stop]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    budget.search(text)
    times = text.count(old)
    times = times if limit < 0 else min(times, limit)
    budget.spend(times // 4)
    budget.make(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    budget.make(len(text))
    budget.spend(len(text) if separator == "" else text.count(separator))
    if separator == "":
        parts = list(text)
        if 0 <= limit < len(parts):
            parts[limit - 1 :] = ["".join(parts[limit - 1 :])]
        return parts
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    table = {code: change(chr(code)) for code in range(128)}

    def changed(text: str) -> str:
        budget.spend(len(text) // 4)  # slower by far than a copy
        return text.translate(table)

    return changed


def _trim(text: str) -> str:
    budget.make(len(text))
    return text.strip()


def _contains(text: str, part: str) -> bool:
    budget.search(text)
    return part in text


def _starts(text: str, part: str) -> bool:
    budget.compare(part)
    return text.startswith(part)


def _ends(text: str, part: str) -> bool:
    budget.compare(part)
    return text.endswith(part)


def _bytes(text: str) -> bytes:
    budget.make(len(text))
    return text.encode()


def _string(value: Any) -> str:
    if value.__class__ in (str, bytes):
        budget.make(len(value))
    return show(value)


def _join(items: list[Any], separator: str = "") -> str:
    budget.spend(len(items))
    if not all(isinstance(item, str) for item in items):
        raise CelError("no such overload: join")
    budget.make(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    budget.spend(len(items))
    if isinstance(items[0], Duration):
        return Duration(sum(item.nanos for item in items))
    total = sum(items)
    return in_range(total) if isinstance(total, int) else total


def _least(items: list[Any]) -> Any:
    if not items:
        raise CelError("min called on empty list")
    return min(paid(items))


def _most(items: list[Any]) -> Any:
    if not items:
        raise CelError("max called on empty list")
    return max(paid(items))


def _is_sorted(items: list[Any]) -> bool:
    return all(not after < before for before, after in pairwise(paid(items)))


def _place(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(paid(items)) if equal(item, wanted)), -1)


def _last_place(items: list[Any], wanted: Any) -> int:
    behind = (i for i, item in enumerate(paid(reversed(items))) if equal(item, wanted))
    return len(items) - 1 - next(behind, len(items))


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(item, each) for item in paid(items)) for each in paid(wanted))


def _have_common(a: list[Any], b: list[Any]) -> bool:
    return any(equal(x, y) for x in paid(a) for y in paid(b))


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        if len(value) > _LONGEST_INT or not _INT_TEXT.fullmatch(value):
            raise CelError(f"type conversion error from 'string' to 'int': {value}")
        return in_range(int(value))
    if isinstance(value, float):
        if value != value or abs(value) >= 2**63:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, Timestamp) and not isinstance(value, Duration):
        return value.nanos // 10**9
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise CelError("no such overload: int")


def _to_double(value: Any) -> float:
    if isinstance(value, str) and not _FLOAT_TEXT.fullmatch(value):
        raise CelError(f"type conversion error from 'string' to 'double': {value}")
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return float(value)
    raise CelError("no such overload: double")


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CelError(f"type conversion error from 'string' to 'bool': {value}")


def duration(value: Any) -> Duration:
    """Read Go's spelling, `1h30m`."""
    if isinstance(value, Duration):
        return value
    nanos = formats.parse_go_duration(value) if isinstance(value, str) else None
    if nanos is None:
        raise CelError(f"type conversion error from 'string' to 'duration': {value}")
    return Duration(nanos)


def timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return Timestamp(value * 10**9)
    if not re.search(r"(Z|[+-]\d\d:\d\d)$", value):
        raise CelError(f"type conversion error from 'string' to timestamp: {value}")
    return parse_timestamp(value)


_add("size(string) int", len)
_add("string.size() int", len)
for _kind in ("bytes", "list", "map"):
    _add(f"size({_kind}) int", len)
    _add(f"{_kind}.size() int", len)
_add("string.contains(string) bool", _contains)
_add("string.startsWith(string) bool", _starts)
_add("string.endsWith(string) bool", _ends)
_add("string.matches(string) bool", _matches)
_add("matches(string, string) bool", _matches)
_add("string.find(string) string", _find)
_add("string.findAll(string) list(string)", _find_all)
_add("string.findAll(string, int) list(string)", _find_all)
_add("string.charAt(int) string", _char_at)
_add("string.indexOf(string) int", _index_of)
_add("string.indexOf(string, int) int", _index_of)
_add("string.lastIndexOf(string) int", _last_index_of)
_add("string.lastIndexOf(string, int) int", _last_index_of)
_add("string.lowerAscii() string", _ascii(str.lower))
_add("string.upperAscii() string", _ascii(str.upper))
_add("string.replace(string, string) string", _replace)
_add("string.replace(string, string, int) string", _replace)
_add("string.split(string) list(string)", _split)
_add("string.split(string, int) list(string)", _split)
_add("string.substring(int) string", _substring)
_add("string.substring(int, int) string", _substring)
_add("string.trim() string", _trim)
_add("list.join() string", _join)
_add("list.join(string) string", _join)
_add("list.isSorted() bool", _is_sorted)
_add("list.sum() element", _sum)
_add("list.min() element", _least)
_add("list.max() element", _most)
_add("list.indexOf(dyn) int", _place)
_add("list.lastIndexOf(dyn) int", _last_place)
_add("sets.contains(list, list) bool", _has_all)
_add("sets.equivalent(list, list) bool", lambda a, b: _has_all(a, b) and _has_all(b, a))
_add("sets.intersects(list, list) bool", _have_common)
for _kind in ("int", "double", "string", "timestamp"):
    _add(f"int({_kind}) int", _to_int)
for _kind in ("int", "double", "string"):
    _add(f"double({_kind}) double", _to_double)
for _kind in ("int", "double", "string", "bool", "bytes", "timestamp", "duration"):
    _add(f"string({_kind}) string", _string)
_add("bool(bool) bool", _to_bool)
_add("bool(string) bool", _to_bool)
_add("bytes(string) bytes", _bytes)
_add("bytes(bytes) bytes", bytes)
_add("timestamp(string) timestamp", timestamp)
_add("timestamp(int) timestamp", timestamp)
_add("timestamp(timestamp) timestamp", timestamp)
_add("duration(string) duration", duration)
_add("duration(duration) duration", duration)
_add("timestamp.getFullYear() int", lambda t: t.moment.year)
_add("timestamp.getMonth() int", lambda t: t.moment.month - 1)
_add("timestamp.getDate() int", lambda t: t.moment.day)
_add("timestamp.getDayOfMonth() int", lambda t: t.moment.day - 1)
_add("timestamp.getDayOfWeek() int", lambda t: t.moment.isoweekday() % 7)
_add("timestamp.getDayOfYear() int", lambda t: t.moment.timetuple().tm_yday - 1)
_add("timestamp.getHours() int", lambda t: t.moment.hour)
_add("timestamp.getMinutes() int", lambda t: t.moment.minute)
_add("timestamp.getSeconds() int", lambda t: t.moment.second)
_add("timestamp.getMilliseconds() int", lambda t: t.moment.microsecond // 1000)


def _whole(nanos: int) -> Callable[[Duration], int]:
    return lambda length: divide(length.nanos, nanos)


for _unit, _nanos in {"Hours": 3600 * 10**9, "Minutes": 60 * 10**9, "Seconds": 10**9}.items():
    _add(f"duration.get{_unit}() int", _whole(_nanos))
_add("duration.getMilliseconds() int", _whole(10**6))
