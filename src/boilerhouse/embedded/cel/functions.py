"""The functions a rule may call: those of CEL and of Kubernetes' libraries that are honoured here.

cel_compile.py ──► overloads(name) ──► Overload(receiver, takes, gives, run)

Written as signatures, so that the table reads like the documentation. `list` and `map` take any
element; `element` as result is the list's own. What Kubernetes has and this table has not is in
`KNOWN_ELSEWHERE`: it is refused by that name rather than as a spelling mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from boilerhouse.embedded.cel.values import (
    CelError,
    Duration,
    Timestamp,
    divide,
    equal,
    in_range,
    parse_timestamp,
    show,
)
from boilerhouse.embedded.schemas import formats
from boilerhouse.embedded.schemas.regex import BadPattern, compile_re2

_INT_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
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


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_re2(pattern).search(text) is not None
    except BadPattern as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        found = [match[0] for match in compile_re2(pattern).finditer(text)]
    except BadPattern as error:
        raise CelError(f"error parsing regexp: {error}") from error
    return found if limit < 0 else found[:limit]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator == "":
        parts = list(text)
        if 0 <= limit < len(parts):
            parts[limit - 1 :] = ["".join(parts[limit - 1 :])]
        return parts
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(char) if char.isascii() else char for char in text)


def _join(items: list[Any], separator: str = "") -> str:
    if not all(isinstance(item, str) for item in items):
        raise CelError("no such overload: join")
    return separator.join(items)


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    if isinstance(items[0], Duration):
        return Duration(sum(item.nanos for item in items))
    total = sum(items)
    return in_range(total) if isinstance(total, int) else total


def _least(items: list[Any]) -> Any:
    if not items:
        raise CelError("min called on empty list")
    return min(items)


def _most(items: list[Any]) -> Any:
    if not items:
        raise CelError("max called on empty list")
    return max(items)


def _is_sorted(items: list[Any]) -> bool:
    return all(not items[i + 1] < items[i] for i in range(len(items) - 1))


def _place(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if equal(item, wanted)), -1)


def _last_place(items: list[Any], wanted: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if equal(items[i], wanted)), -1)


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(item, each) for item in items) for each in wanted)


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        if not _INT_TEXT.fullmatch(value):
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
_add("string.contains(string) bool", lambda text, part: part in text)
_add("string.startsWith(string) bool", str.startswith)
_add("string.endsWith(string) bool", str.endswith)
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
_add("string.trim() string", str.strip)
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
_add("sets.intersects(list, list) bool", lambda a, b: any(equal(x, y) for x in a for y in b))
for _kind in ("int", "double", "string", "timestamp"):
    _add(f"int({_kind}) int", _to_int)
for _kind in ("int", "double", "string"):
    _add(f"double({_kind}) double", _to_double)
for _kind in ("int", "double", "string", "bool", "bytes", "timestamp", "duration"):
    _add(f"string({_kind}) string", show)
_add("bool(bool) bool", _to_bool)
_add("bool(string) bool", _to_bool)
_add("bytes(string) bytes", str.encode)
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
