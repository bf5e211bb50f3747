"""String formats that a Kubernetes server checks in custom resources; any other name is ignored.

format name ──► CHECKS[name](text) -> bool

Names are compared without dashes, as the server does (`date-time` is `datetime`). `int32`, `int64`,
`float` and `double` are not in the table: a real server checks only a number's type.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.headerregistry import Address
from email.utils import parseaddr
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

_SHORT: Final = 40  # characters of a moment as most write it

_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_UUID = "{0}{{8}}-?{0}{{4}}-?{1}-?{2}-?{0}{{12}}"
_HEX = "[0-9a-f]"
_HOST_CHAR = r"[^\W_]"  # a letter or digit of any script
_HOSTNAME = re.compile(
    rf"{_HOST_CHAR}(-?{_HOST_CHAR}{{0,62}})?"
    rf"|({_HOST_CHAR}((?:{_HOST_CHAR}|-){{0,61}}{_HOST_CHAR})?\.)+[^\W\d_]{{2,63}}"
)
_HEXCOLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_SSN = re.compile(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_MAC = re.compile(
    r"(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}(?:[0-9a-f]{2}|(?:[0-9a-f]{2}\1){2}[0-9a-f]{2}"
    r"|(?:[0-9a-f]{2}\1){14}[0-9a-f]{2})|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2,3}",
    re.IGNORECASE,
)
_GO_DURATION = re.compile(
    r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
)
_GO_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LOOSE_PART = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip
# Looser spellings: exact names, and a prefix that any longer word may continue ("minutes").
_LOOSE_UNITS: Final = (
    (("ns",), "nano", 1), (("us", "µs"), "micro", 1_000), (("ms",), "milli", 1_000_000),
    (("s",), "sec", 10**9), (("m",), "min", 60 * 10**9), (("h", "hr"), "hour", 3600 * 10**9),
    (("d",), "day", 86_400 * 10**9), (("w", "wk"), "week", 604_800 * 10**9),
)  # fmt: skip


def normal(name: str) -> str:
    """Return a format's name as the tables spell it."""
    return name.replace("-", "")


def parse_go_duration(text: str) -> int | None:
    """Return nanoseconds of `1h30m`, or None."""
    if not _GO_DURATION.fullmatch(text):
        return None
    total = 0
    for number, unit in _GO_PART.findall(text):
        whole, _, fraction = number.partition(".")
        scale = _NANOSECONDS[unit]
        total += int(whole or 0) * scale
        total += int(fraction or 0) * scale // 10 ** len(fraction)
    return -total if text.startswith("-") else total


def parse_duration(text: str) -> int | None:
    """Return nanoseconds of `1h30m` or of the looser `2 minutes`, or None."""
    exact = parse_go_duration(text)
    if exact is not None:
        return exact
    total, found = 0, False
    for count, word in _LOOSE_PART.findall(text):
        unit = word.lower()
        for names, prefix, scale in _LOOSE_UNITS:
            if unit in names or unit.startswith(prefix):
                found = True
                total += int(count) * scale
    return total if found else None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    # Many fields tell of one moment. A text that is longer is looked at, and not remembered.
    return _known_datetime(text) if len(text) <= _SHORT else _datetime(text)


def _datetime(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    match = _TIME.fullmatch(clock.partition("t")[0])
    return (
        _is_date(day) and match is not None and match[1] <= "23" and max(match[2], match[3]) <= "59"
    )


_known_datetime = lru_cache(maxsize=256)(_datetime)


def _sloppy_v4(text: str) -> str:
    """Drop leading zeros of the four numbers: the server has always tolerated them."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){3}(/[0-9]+)?", text):
        return text
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", text)


def _is_ipv4(text: str) -> bool:
    # An IPv6 address that ends in dotted form also counts: the server looks for a dot.
    return "." in text and _is_ip(_sloppy_v4(text))


def _is_ipv6(text: str) -> bool:
    return ":" in text and _is_ip(text)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not re.fullmatch(r"[0-9]+", bits) or not _is_ip(_sloppy_v4(address)):
        return False
    return int(bits) <= (128 if ":" in address else 32) and (bits == "0" or bits[0] != "0")


def _is_uri(text: str) -> bool:
    """Tell whether it is what Go calls a request URI: absolute, or a path that begins with /."""
    if re.search(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})", text) or not text:
        return False
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return False
    return "[" not in parts.netloc or "]" in parts.netloc


def _is_email(text: str) -> bool:
    _, address = parseaddr(text)
    if "@" not in address or "\n" in text:
        return False
    try:
        Address(addr_spec=address)
    except (ValueError, IndexError):
        return False
    return True


def _is_hostname(text: str) -> bool:
    if not _HOSTNAME.fullmatch(text) or len(text.encode()) > 255:
        return False
    return all(len(label.encode()) <= 63 for label in text.split("."))


def _isbn_digits(text: str) -> str:
    return re.sub(r"[\s-]", "", text)


def _is_isbn10(text: str) -> bool:
    digits = _isbn_digits(text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _isbn_digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (1, 3)[index % 2] for index, digit in enumerate(digits)) % 10 == 0


def _fully(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.fullmatch(text) is not None


CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "cidr": _is_cidr,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": lambda text: parse_duration(text) is not None,
    "email": _is_email,
    "hexcolor": lambda text: _HEXCOLOR.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda text: True,
    "ssn": lambda text: len(text) == 11 and _SSN.fullmatch(text) is not None,
    "uri": _is_uri,
    "uuid": _fully(_UUID.format(_HEX, _HEX + "{4}", _HEX + "{4}")),
    "uuid3": _fully(_UUID.format(_HEX, "3" + _HEX + "{3}", _HEX + "{4}")),
    "uuid4": _fully(_UUID.format(_HEX, "4" + _HEX + "{3}", "[89ab]" + _HEX + "{3}")),
    "uuid5": _fully(_UUID.format(_HEX, "5" + _HEX + "{3}", "[89ab]" + _HEX + "{3}")),
}
# Checked by a real server and not here: a schema that names one is refused when it is installed.
REFUSED: Final = frozenset({"bsonobjectid", "creditcard", "rgbcolor"})
