r"""Regular expressions of Kubernetes schemas (RE2, as Go writes it), run by Python's `re`.

pattern (RE2) ──► translate ──► pattern (Python) ──► re.compile

The two dialects look alike and differ in the corners: `$`, `\s`, `\b`, `{,3}`, possessive
quantifiers, POSIX classes. Every token is read as RE2 reads it and written so that Python does the
same. What RE2 does not have (look-around, back-references) is an error, as it is on a real server;
what RE2 has and Python cannot express (`\p{Greek}`, flags in mid-pattern) is refused by name.
Python's engine backtracks: whoever may install a CRD may write a slow pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_CONTROL = {"a": "\x07", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_MAX_REPEAT = 1000  # RE2's own limit


class BadPattern(ValueError):
    """The pattern is not RE2, or cannot be run here; the message says which part."""


@lru_cache(maxsize=4096)
def compile_re2(pattern: str) -> re.Pattern[str]:
    """Compile a pattern written for RE2; raise BadPattern when that cannot be done faithfully."""
    try:
        return re.compile(_Reader(pattern).read())
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"{error}") from error


class _Reader:
    """One pass over a pattern. `self.multiline` follows the flag groups that enclose the place."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.out: list[str] = []
        self.multiline = False
        self.stack: list[bool] = []

    def read(self) -> str:
        if (match := _FLAGS.match(self.text)) and match[3] == ")":
            self.at = match.end()
            self.out.append(self._flags(match, "(?", ")"))
        while self.at < len(self.text):
            self._token()
        return "".join(self.out)

    def _token(self) -> None:
        char = self.text[self.at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._set()
        elif char == "(":
            self._group()
        elif char == ")":
            if self.stack:
                self.multiline = self.stack.pop()
            self._emit(")", 1)
        elif char == "$":
            self._emit("$" if self.multiline else r"\Z", 1)
        elif char in "*+?":
            self._quantifier(char, 1)
        elif char == "{":
            self._braces()
        elif char in "^.|":
            self._emit(char, 1)
        else:
            self._emit(re.escape(char), 1)

    def _emit(self, text: str, length: int) -> None:
        self.out.append(text)
        self.at += length

    def _quantifier(self, text: str, length: int) -> None:
        self._emit(text, length)
        if self.text[self.at : self.at + 1] == "?":
            self._emit("?", 1)
        rest = self.text[self.at : self.at + 1]
        if rest and (rest in "*+?" or _REPEAT.match(self.text, self.at)):
            raise BadPattern(f"invalid nested repetition operator: {text}{rest}")

    def _braces(self) -> None:
        match = _REPEAT.match(self.text, self.at)
        if match is None:  # RE2 reads a brace that is no repetition as itself
            self._emit(r"\{", 1)
            return
        counts = [int(number) for number in (match[1], match[3]) if number]
        if max(counts) > _MAX_REPEAT or counts != sorted(counts):
            raise BadPattern(f"invalid repeat count: {match[0]}")
        self._quantifier(match[0], len(match[0]))

    def _group(self) -> None:
        rest = self.text[self.at :]
        self.stack.append(self.multiline)
        if not rest.startswith("(?"):
            self._emit("(", 1)
        elif named := _NAMED.match(rest):
            self._emit(f"(?P<{named[1]}>", named.end())
        elif flags := _FLAGS.match(rest):
            if flags[3] == ")":
                raise BadPattern(f"flags in the middle of a pattern are not supported: {flags[0]}")
            self.at += flags.end()
            self.out.append(self._flags(flags, "(?", ":"))
        else:
            raise BadPattern(f"invalid or unsupported Perl syntax: {rest[:3]}")

    def _flags(self, match: re.Match[str], start: str, end: str) -> str:
        on, off = match[1], match[2] or ""
        if "U" in on + off:
            raise BadPattern("the flag U is not supported")
        if "m" in on:
            self.multiline = True
        if "m" in off:
            self.multiline = False
        if end == ")":  # switching off what is off by default says nothing
            return f"{start}{on}{end}" if on else ""
        return f"{start}{on}{'-' + off if off else ''}{end}"

    def _escape(self) -> None:
        char = self.text[self.at + 1 : self.at + 2]
        if char == "Q":
            end = self.text.find(r"\E", self.at)
            end = len(self.text) if end < 0 else end
            self.out.append(re.escape(self.text[self.at + 2 : end]))
            self.at = end + 2
        elif char.lower() in _PERL and char:
            inside = _PERL[char.lower()]
            self._emit(f"[{'^' if char.isupper() else ''}{inside}]", 2)
        elif char == "b":
            self._emit(r"(?a:\b)", 2)
        elif char == "B":
            self._emit(r"(?!(?a:\b))", 2)
        elif char == "A":
            self._emit(r"\A", 2)
        elif char == "z":
            self._emit(r"\Z", 2)
        else:
            literal, length = self._literal()
            self._emit(re.escape(literal), length)

    def _literal(self) -> tuple[str, int]:
        """Read an escaped single character; return it and how long its spelling is."""
        rest = self.text[self.at + 1 :]
        if not rest:
            raise BadPattern("trailing backslash at end of expression")
        char = rest[0]
        if char in _CONTROL:
            return _CONTROL[char], 2
        if char == "x":
            match = re.match(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))", rest)
            if match is None or int(match[1] or match[2], 16) > 0x10FFFF:
                raise BadPattern(rf"invalid escape sequence: \{rest[:4]}")
            return chr(int(match[1] or match[2], 16)), 1 + match.end()
        if octal := re.match(r"0[0-7]{0,2}|[1-7][0-7]{1,2}", rest):
            return chr(int(octal[0], 8)), 1 + octal.end()
        if char in "pP":
            raise BadPattern(rf"Unicode classes are not supported: \{rest.split('}')[0]}")
        if char.isascii() and not char.isalnum():
            return char, 2
        raise BadPattern(rf"invalid escape sequence: \{char}")

    def _set(self) -> None:
        """Read a bracket expression and write it with every special character escaped."""
        start = self.at
        self.at += 1
        negated = self.text[self.at : self.at + 1] == "^"
        self.at += negated
        parts: list[str] = []
        first = True
        while True:
            char = self.text[self.at : self.at + 1]
            if not char:
                raise BadPattern(f"missing closing ]: {self.text[start:]}")
            if char == "]" and not first:
                self.at += 1
                break
            first = False
            parts.append(self._set_item())
        self.out.append(f"[{'^' if negated else ''}{''.join(parts)}]")

    def _set_item(self) -> str:
        rest = self.text[self.at :]
        if posix := re.match(r"\[:(\^?)(\w+):\]", rest):
            if posix[2] not in _POSIX or posix[1]:
                raise BadPattern(f"character class is not supported: {posix[0]}")
            self.at += posix.end()
            return _POSIX[posix[2]]
        if perl := re.match(r"\\([dws])", rest):
            self.at += 2
            return _PERL[perl[1]]
        if negative := re.match(r"\\[DWS]", rest):
            raise BadPattern(f"{negative[0]} inside a class is not supported")
        low = self._set_char()
        after = self.text[self.at : self.at + 2]
        if after[:1] != "-" or after in ("-", "-]"):
            return _in_set(low)
        self.at += 1
        if re.match(r"\\[dwsDWS]|\[:", self.text[self.at :]):
            raise BadPattern(f"invalid character class range in {self.text}")
        high = self._set_char()
        if high < low:
            raise BadPattern(f"invalid character class range: {low}-{high}")
        return f"{_in_set(low)}-{_in_set(high)}"

    def _set_char(self) -> str:
        char = self.text[self.at : self.at + 1]
        if char != "\\":
            if not char:
                raise BadPattern(f"missing closing ]: {self.text}")
            self.at += 1
            return char
        literal, length = self._literal()
        self.at += length
        return literal


def _in_set(char: str) -> str:
    return char if char.isalnum() else f"\\{char}" if char.isascii() and char.isprintable() else (
        f"\\U{ord(char):08x}"
    )  # fmt: skip
