"""Patterns mean what they mean on a real server, and take no longer than their text is long."""

from __future__ import annotations

import pytest

from boilerhouse.embedded.apiserver.schemas.regex import BadPattern, compile_re2
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from tests.unit.embedded.apiserver.schemas.schema_cases import fields, root, text


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
        (r"^\p{Greek}+$", "αβ", "ab"),
        ("^a(?i)b$", "aB", "AB"),
        ("^(?U)a+", "aa", "b"),
        (r"^[\D]$", "x", "1"),
        ("^[[:^alpha:]]$", "1", "x"),
    ],
)
def test_understood(pattern: str, matching: str, other: str) -> None:
    """The first text matches and the second does not, as RE2 has it."""
    assert compile_re2(pattern).matches(matching)
    assert not compile_re2(pattern).matches(other)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#x)", "(?P=n)", r"(a)\1", "a**", "a*+",
        "a++", "a{2}{3}", "a{1001}", "a{3,2}", "[", "[b-a]", r"[a-\d]", "(", ")", "*a", r"\8",
        r"\y", "\\", r"\x{110000}", r"\p{Nope}", "[[:nope:]]", r"\Z", r"\G", r"a\C",
        "(?P<n>a)(?P<n>b)", "(?:a{0,61}){0,61}", "\ud800",
    ],
)  # fmt: skip
def test_refused(pattern: str) -> None:
    """What Go's expressions do not have is an error, look-around and back-references first."""
    with pytest.raises(BadPattern):
        compile_re2(pattern)


def test_complaints_are_in_the_words_of_go() -> None:
    """A pattern is refused with what a real server says, whatever our engine calls it."""
    for pattern, said in {
        "(?=a)": "invalid or unsupported Perl syntax: (?=",
        "a**": "invalid nested repetition operator: **",
        "a{1001}": "invalid repeat count: {1001}",
        "[": "missing closing ]: [",
        "*a": "missing argument to repetition operator: *",
        "\\": "trailing backslash at end of expression",
    }.items():
        with pytest.raises(BadPattern) as refused:
            compile_re2(pattern)
        assert str(refused.value) == said


@pytest.mark.timeout(10)
def test_no_pattern_explodes() -> None:
    """Nested repetitions cost what the text is long, not two to the power of it."""
    hostile = "a" * 100_000 + "!"
    for pattern in ("^(a+)+$", "^(a|aa)+$", "^(a*)*b", "(.*)(.*)(.*)x"):
        assert not compile_re2(pattern).matches(hostile)


def test_every_match_is_found_as_go_finds_it() -> None:
    """Empty matches count, except right behind another match or inside of a character."""
    assert list(compile_re2("a*").find("baaacé")) == ["", "aaa", "", ""]
    assert list(compile_re2("").find("é")) == ["", ""]
    assert list(compile_re2("[a-z]é?").find("aéb")) == ["aé", "b"]


def test_a_text_that_would_take_too_long_is_refused_and_says_so() -> None:
    """A large pattern over a large text could hold up the server: it is not begun."""
    schema = Schema.compile(root(fields(a=text(pattern="[a-q][^u-z]{500}x"))))
    (cause,) = schema.validate({"spec": {"a": "a" * 100_000}})
    assert "spec.a in body is too long to be matched against '[a-q]" in cause.message
    assert len(cause.message) < 500
