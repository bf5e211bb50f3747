"""Patterns written for RE2 mean the same when Python runs them, or are refused."""

from __future__ import annotations

import pytest

from boilerhouse.embedded.schemas.regex import BadPattern, compile_re2


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^a$", "a", "a\n"),
        ("(?m)^a$", "b\na", "b"),
        (r"^\w+\z", "a_1", "é"),
        (r"\bx\b", "é x", "éx1"),
        (r"^\x{e9}\x41$", "éA", "eA"),
        (r"^\Q.*\E$", ".*", "ab"),
        (r"^[\]a-c\-]+$", "]b-", "d"),
        (r"^[]a]+$", "]a", "b"),
        ("^[[:digit:][:space:]]+$", "1 ", "x"),
        ("^(?P<n>a)(?<m>b)$", "ab", "b"),
        (r"^\101\07$", "A\x07", "A7"),
        ("^(?i:a)b$", "Ab", "AB"),
        ("^a{2}b{1,}c{1,2}$", "aabbcc", "abc"),
        ("^{x}$", "{x}", "x"),
        ("^[&&~~||-]+$", "&~|-", "a"),
    ],
)
def test_translated(pattern: str, matching: str, other: str) -> None:
    """The first text matches and the second does not, as RE2 has it."""
    assert compile_re2(pattern).search(matching)
    assert not compile_re2(pattern).search(other)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#x)", "(?P=n)", r"(a)\1", "a**", "a*+",
        "a++", "a{2}{3}", "a{1001}", "a{3,2}", "[", "[b-a]", r"[a-\d]", "(", ")", "*a", r"\8",
        r"\y", "\\", r"\x{110000}", r"\p{Greek}", "a(?i)b", "(?U)a", r"[\D]", "[[:^alpha:]]",
        "[[:nope:]]", r"\Z", r"\G",
    ],
)  # fmt: skip
def test_refused(pattern: str) -> None:
    """What RE2 does not have, and what Python cannot do as RE2 does it, is an error."""
    with pytest.raises(BadPattern):
        compile_re2(pattern)
