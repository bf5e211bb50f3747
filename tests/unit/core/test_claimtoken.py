"""Claim tokens: minted with a key, believed only with the same one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core.claimtoken import mint, verify

KEY = bytes(range(32))
UID = "2c9c6f3e-7b0e-4d53-9a8e-0c0c5a3f1d11"


def test_a_token_names_its_claim() -> None:
    """Whoever has the key reads the claim's UID out of a token; minting twice gives the same."""
    token = mint(KEY, UID)
    assert token.startswith(f"bh1.{UID}.")
    assert verify(KEY, token) == UID
    assert mint(KEY, UID) == token


def test_a_token_of_another_key_is_nobodys() -> None:
    """A server with another key does not believe it."""
    assert verify(bytes(32), mint(KEY, UID)) is None


@given(st.text(max_size=80))
def test_no_text_is_a_token(text: str) -> None:
    """Whatever somebody sends, it is refused without an error, even with a true UID in it."""
    assert verify(KEY, text) is None
    assert verify(KEY, f"bh1.{UID}.{text}") is None


@given(st.integers(min_value=0), st.characters())
def test_a_changed_token_is_nobodys(at: int, letter: str) -> None:
    """One character changed, anywhere, and the token is worthless."""
    token = mint(KEY, UID)
    at %= len(token)
    changed = token[:at] + letter + token[at + 1 :]
    assert verify(KEY, changed) == (UID if changed == token else None)


def test_what_cannot_be_minted() -> None:
    """A short key is no secret, and a UID with dots would make two readings of one token."""
    with pytest.raises(ValueError, match="32 bytes"):
        mint(b"short", UID)
    for uid in ("", "a.b", "ü"):
        with pytest.raises(ValueError, match="not a UID"):
            mint(KEY, uid)
