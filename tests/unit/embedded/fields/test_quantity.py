"""Quantities: parsed, compared, added, and spelled as a real server spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.embedded.fields.quantity import (
    BadQuantity,
    Quantity,
    parse,
    spelled,
    spelled_resource,
)

# (sent in a ResourceQuota, stored by a real server)
STORED = [
    ("0", "0"), ("1", "1"), ("1000m", "1"), ("0.1", "100m"), ("1.5", "1500m"),
    ("1.5Gi", "1536Mi"), ("0.5Ki", "512"), ("1024", "1024"), ("1Ki", "1Ki"), ("1024Ki", "1Mi"),
    ("1000Ki", "1000Ki"), ("1e3", "1e3"), ("1e2", "100"), ("12e6", "12e6"), ("1.5e3", "1500"),
    ("100m", "100m"), ("1500m", "1500m"), ("1n", "1m"), ("1u", "1m"), ("0.0000000001", "1m"),
    ("1.0000000001", "1001m"), ("0.1n", "1m"), ("3M", "3M"), ("3000k", "3M"), ("3000000", "3M"),
    ("0.5M", "500k"), ("1Ti", "1Ti"), ("1Pi", "1Pi"), ("1Ei", "1Ei"), ("1P", "1P"), ("1E", "1E"),
    ("9223372036854775807", "9223372036854775807"), ("10E", "10E"), ("12.5Mi", "12800Ki"),
    ("1.25Ki", "1280"), ("+1.5", "1500m"), ("-0", "0"), ("00", "0"), (".5", "500m"), ("1.0", "1"),
    ("1000000000000", "1T"), ("10m", "10m"), ("0m", "0"), ("0Ki", "0"), ("1e-3", "1e-3"),
    ("1k", "1k"), ("1000k", "1M"), ("1e-9", "1e-3"), ("1e-12", "1e-3"), ("2.5Gi", "2560Mi"),
    ("1025", "1025"), ("1.5Ki", "1536"), ("0.001", "1m"), ("1e18", "1e18"), ("1e19", "10e18"),
    ("1e-1", "100e-3"), ("123456789.123456789", "123456789124m"), ("1.1Ki", "1126400m"),
    ("0.1Ki", "102400m"), ("999999999999999999999", "999999999999999999999"),
    ("8Ei", "9223372036854775807"), (1, "1"), (1.5, "1500m"), (0.1, "100m"),
    (100000000000000000000, "100E"), ("5e-7", "1e-3"), ("1.5e-3", "2e-3"), ("0.5e3", "500"),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "stored"), STORED)
def test_spelling(sent: str | float, stored: str) -> None:
    """A resource is stored in the spelling a real server stored it in."""
    assert spelled_resource(sent) == stored


@pytest.mark.parametrize(
    "text",
    ["", "1K", "1x", "1m5", "--1", "1,5", "1Kii", "NaN", "1ki", "abc", "1e", "1e3Ki", "k", "1 ",
     "1e9999", "²", "9" * 100],
)  # fmt: skip
def test_bad_quantities(text: str) -> None:
    """What is no quantity is refused."""
    with pytest.raises(BadQuantity):
        parse(text)


def test_order_and_sums() -> None:
    """Quantities of different families compare and add exactly."""
    assert parse("1Gi") > parse("1G") > parse("999M")
    assert parse("1000m") == parse("1")
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(Quantity(0) + parse("1Gi")) == "1Gi"
    assert str(parse("1") - parse("250m")) == "750m"
    assert str(parse("0.1") + parse("0.2")) == "300m"
    assert str(parse("1") - parse("2")) == "-1"


def test_whole_and_milli() -> None:
    """Bytes and thousandths of CPUs are rounded up."""
    assert parse("1.5").whole == 2
    assert parse("1Ki").whole == 1024
    assert parse("0.0005").milli == 1
    assert float(parse("250m")) == 0.25


def test_finer_than_milli_is_kept_outside_of_resources() -> None:
    """Only resource lists are rounded to thousandths."""
    assert spelled("1u") == "1u"


@given(
    st.integers(-(10**24), 10**24),
    st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e3", "e-3"]),
)
def test_canonical_spelling_is_a_fixed_point(number: int, suffix: str) -> None:
    """Spelling a quantity keeps its value, and spelling it again changes nothing."""
    quantity = parse(f"{number}{suffix}")
    again = parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)
