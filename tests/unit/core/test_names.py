"""Names made of tenant ids: always legal, never shared, whatever the id."""

from __future__ import annotations

import re
import unicodedata

import cel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from boilerhouse.core.names import (
    TENANT_PATTERN,
    claim_lease_name,
    claim_name,
    is_tenant_id,
    label_value,
    slug,
)
from boilerhouse.core.patterns import DNS_LABEL, in_cel

LABEL_VALUE = r"\A[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z"

# Any text, surrogates, controls and all; and texts made to collide.
HOSTILE = st.text(alphabet=st.characters(), max_size=300) | st.text(
    "aA-._/\\ 0fé\u0301\x00", max_size=80
)
WORKLOADS = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?\Z")


@given(HOSTILE, WORKLOADS)
@example("", "a")
@example("日本語", "-")
@example("\ud800", "a")
def test_names_are_always_legal(tenant: str, workload: str) -> None:
    """Claims and Leases are DNS labels of at most 63 characters for every text."""
    for name in (claim_name(tenant, workload), claim_lease_name(tenant, workload)):
        assert re.search(DNS_LABEL, name)
        assert len(name) <= 63


@given(HOSTILE)
@example("")
@example("a" * 64)
@example("x-0123456789")
def test_labels_are_always_legal(tenant: str) -> None:
    """A tenant's label value is one for every text."""
    assert re.search(LABEL_VALUE, label_value(tenant))
    assert len(label_value(tenant)) <= 63


@given(st.tuples(HOSTILE, HOSTILE), st.tuples(HOSTILE, HOSTILE))
@example(("a-b", "c"), ("a", "b-c"))
@example(("A", "w"), ("a", "w"))
@example(("a", ""), ("", "a"))
@example(("é", "w"), ("e\u0301", "w"))
@example(("1:a", "b"), ("1", "a1:b"))
def test_two_claims_never_share_a_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Different (tenant, workload) pairs have different claims and Leases; equal ones the same."""
    assert (claim_name(*one) == claim_name(*other)) is (one == other)
    assert (claim_lease_name(*one) == claim_lease_name(*other)) is (one == other)


@given(HOSTILE, HOSTILE)
@example("a/b", label_value("a/b"))
@example("日本", label_value("日本").removeprefix("x-"))
def test_no_id_can_take_the_label_of_another(one: str, other: str) -> None:
    """Ids that differ have labels that differ, even if one is chosen to look like a label."""
    assert (label_value(one) == label_value(other)) is (one == other)


@pytest.mark.parametrize(
    ("tenant", "label"),
    [
        ("user-123", "user-123"),
        ("Alice.B_c", "Alice.B_c"),
        ("a-0123456789", "a-0123456789-bcc2a8a6ae"),
        ("zoe@example.com", "zoe-example-com-a2755daa00"),
        ("日本語", "x-965b1e1cb2"),
    ],
)
def test_labels_are_readable(tenant: str, label: str) -> None:
    """A legal id is its own label; others keep what can be read of them before the hash."""
    assert label_value(tenant) == label


def test_claim_names_are_readable_and_stable() -> None:
    """The canonical name is a promise across versions: it is the lock on a tenant's workload."""
    assert claim_name("user-123", "my-agent") == "claim-user-123-my-agent-2b5396d8f955f972eecc"
    assert claim_lease_name("user-123", "my-agent") == "t-2b5396d8f955f972eecc"
    assert claim_name("日本語", "a") == "claim-a-168e1ed04e6568c3e06e"


@given(HOSTILE, st.integers(0, 70))
def test_slugs_are_short_and_plain(text: str, limit: int) -> None:
    """A slug has lower-case letters, digits and single dashes inside, and fits."""
    made = slug(text, limit)
    assert len(made) <= limit
    assert re.search(r"\A([a-z0-9]+(-[a-z0-9]+)*)?\Z", made)


@given(HOSTILE)
@example("a\n")
@example("a ")
@example("ä" * 100)
@example("ä" * 101)
def test_legal_tenants_obey_every_part_of_the_rule(text: str) -> None:
    """What is let in can stand in a path, in a URL and on a screen."""
    if is_tenant_id(text):
        assert 1 <= len(text) <= 128
        assert len(text.encode()) <= 200
        assert text == unicodedata.normalize("NFC", text)
        assert text.isprintable()
        assert not set(text) & set("/\\")
        assert text[0] != "."
        assert text[-1] not in ". "
        assert re.search(TENANT_PATTERN, text), "the API server must let in what we let in"


@given(st.text(max_size=200) | st.text("aA-._/\\ 0f\x00\n\x7f", max_size=140))
@example("a\n")
@example("a" * 129)
def test_the_pattern_means_the_same_in_python_and_cel(text: str) -> None:
    """Python and the rules of the API server sort every text alike."""
    verdict = cel.evaluate(f"self.matches({in_cel(TENANT_PATTERN)})", {"self": text})
    assert verdict is bool(re.search(TENANT_PATTERN, text))
