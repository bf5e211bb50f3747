"""Patterns mean the same to Python and to the API server."""

from __future__ import annotations

import re

import pytest

from boilerhouse.core.patterns import DNS_LABEL, DNS_SUBDOMAIN, OddPattern, in_cel, re2


def test_end_of_text_is_spelled_for_each_side() -> None:
    """Python's strict end of text becomes RE2's."""
    assert re2(r"^a+\Z") == "^a+$"
    assert re2(r"^/") == "^/"
    assert in_cel(r"^\.\Z") == r"r'^\.$'"


@pytest.mark.parametrize(
    "pattern", [r"^a$", r"^\d+\Z", r"\w", r"\s", r"\bx", r"(?=a)", r"a\Zb", r"\Aa"]
)
def test_patterns_read_differently_are_refused(pattern: str) -> None:
    """What Python and RE2 would not read alike cannot reach a schema."""
    with pytest.raises(OddPattern, match="read this pattern differently"):
        re2(pattern)


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        ("a", True, True),
        ("a-b-1", True, True),
        ("0", True, True),
        ("a.b", False, True),
        ("", False, False),
        ("-a", False, False),
        ("a-", False, False),
        ("A", False, False),
        ("a..b", False, False),
        ("a.-b", False, False),
        ("a\n", False, False),
        ("ä", False, False),
    ],
)
def test_dns_names(text: str, label: bool, subdomain: bool) -> None:
    """Labels and subdomains are those of Kubernetes."""
    assert bool(re.search(DNS_LABEL, text)) is label
    assert bool(re.search(DNS_SUBDOMAIN, text)) is subdomain
