"""Quantities are exact, and mean what the API server means by them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boilerhouse.embedded.fields.quantity import BadQuantity, parse
from boilerhouse.engines.template.quantities import amount


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("1500m", Fraction(3, 2)), ("1.5Gi", 3 * 2**29), (2, 2), (0.5, Fraction(1, 2)),
     ("12e6", 12_000_000), ("1E", 10**18), ("1E3", 1000), ("-1k", -1000), (".5", Fraction(1, 2))],
)  # fmt: skip
def test_quantities_are_read(text: object, number: Fraction) -> None:
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1Gib", "--1", None, True, [], "1" * 65])
def test_what_is_no_quantity_means_none(text: object) -> None:
    assert amount(text) is None


@settings(max_examples=40)
@given(st.from_regex(r"\A[0-9]{1,5}(\.[0-9]{0,3})?(m|k|M|Ki|Mi|Gi|e3|E)?\Z"))
def test_it_agrees_with_the_api_servers_reading(text: str) -> None:
    """Two readers, one number, as far as nanos go."""
    try:
        nanos = parse(text).nanos
    except BadQuantity:
        assert amount(text) is None
    else:
        number = amount(text)
        assert number is not None
        most = (2**63 - 1) * 10**9
        assert min(number * 10**9, most) == nanos or nanos - number * 10**9 < 1
