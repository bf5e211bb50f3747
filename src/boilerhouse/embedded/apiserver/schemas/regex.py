r"""Regular expressions of Kubernetes schemas and rules, run by RE2 (ADR 0010).

pattern ──► compile_re2 ──► Pattern ──► matches, find

A real server is written in Go, whose expressions are RE2's: no look-around, no back-references, and
a time that grows with the text and never explodes. The engine itself says what is a pattern. Only
its complaints are put into Go's words, and the two things Go does not have (`\C`, two groups of one
name) are refused.

The time is linear, yet a large pattern makes it steep: at worst each byte of the text visits each
instruction. `effort` says how many visits that may be, so that who asks can bound them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

# At worst some 2 ns each: a match that may take more than about 100 ms is not begun.
MAX_EFFORT: Final = 50_000_000
# A compiled pattern may take megabytes (RE2's own limit is 8), and patterns can come from objects.
_KEPT: Final = 256
# Answers that a pattern remembers, and the longest text of one: phases, reasons, names come again
# and again, and asking the engine costs ten times as much as looking here.
_ANSWERS: Final = 256
_SHORT: Final = 128

_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_NAMED = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
# RE2's complaints in C++, and the same in Go.
_IN_GO: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}


class BadPattern(ValueError):
    """The pattern is not RE2; the message says which part."""


class Pattern:
    """A compiled expression. It works on UTF-8, as the engine does."""

    __slots__ = ("_answers", "_engine", "_size")

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._answers: dict[str, bool] = {}
        self._size: int = engine.programsize

    def effort(self, text: str) -> int:
        """Return how many steps a match may take at worst."""
        return len(text.encode()) * self._size

    def matches(self, text: str) -> bool:
        """Tell whether the pattern matches anywhere in the text."""
        if len(text) > _SHORT:
            return self._engine.search(text.encode()) is not None
        answer = self._answers.get(text)
        if answer is None:
            if len(self._answers) >= _ANSWERS:
                self._answers.clear()
            answer = self._answers[text] = self._engine.search(text.encode()) is not None
        return answer

    def find(self, text: str) -> Iterator[str]:
        """Yield the matches that do not overlap; each is looked for when it is asked for."""
        end = -1
        for match in self._engine.finditer(text.encode()):
            # An empty match right behind another one is none, as Go has it. One inside of a
            # character, where the engine steps by bytes, is none either.
            start, was = match.start(), end
            end = match.end()
            if start == end and (start == was or _inside_character(match.string, start)):
                continue
            yield match[0].decode()


def _inside_character(data: bytes, at: int) -> bool:
    return at < len(data) and data[at] & 0xC0 == 0x80


@lru_cache(maxsize=_KEPT)
def compile_re2(pattern: str) -> Pattern:
    """Compile a pattern; raise BadPattern when it is none."""
    # Here and not above: loading it takes some 30 ms, and most of our commands need no pattern.
    import re2  # type: ignore[import-untyped]

    if _ANY_BYTE.search(pattern):
        raise BadPattern(r"invalid escape sequence: \C")
    names = _NAMED.findall(pattern)
    if len(set(names)) != len(names):
        raise BadPattern("duplicate capture group name")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return Pattern(re2.compile(pattern.encode(), options))
    except UnicodeEncodeError as error:
        raise BadPattern("invalid UTF-8") from error
    except re2.error as error:
        raise BadPattern(_in_go(error.args[0])) from None


def _in_go(complaint: bytes | str) -> str:
    said = complaint.decode(errors="replace") if isinstance(complaint, bytes) else complaint
    words, colon, part = said.partition(": ")
    return f"{_IN_GO.get(words, words)}{colon}{part}"
