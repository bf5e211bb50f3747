"""Claim tokens: what an instance shows to our API to say whose it is.

    mint(key, uid) ─► bh1.<claim uid>.<HMAC-SHA256>  ─► /run/boilerhouse/token
    verify(key, token) ─► claim uid ─► the API looks whether that claim is Active

Nothing is stored per claim: the key alone tells a true token, and the claim it names, looked up
live, says what it is worth now. A released claim's token is worthless, since its UID never returns.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

_PREFIX = "bh1"
_TOKEN_LIMIT = 512  # a UID has 36 characters; what is longer is not hashed at all


def mint(key: bytes, uid: str) -> str:
    """Return the token of the claim with this UID. The same for the same key and UID."""
    if not uid or "." in uid or not uid.isascii():
        raise ValueError(f"not a UID: {uid!r}")
    return f"{_PREFIX}.{uid}.{_seal(key, uid)}"


def verify(key: bytes, token: str) -> str | None:
    """Return the UID of the claim whose token this is; None if it is nobody's.

    Takes the same time for every wrong token of the right shape.
    """
    if len(token) > _TOKEN_LIMIT or not token.isascii():
        return None
    prefix, _, rest = token.partition(".")
    uid, _, seal = rest.partition(".")
    if prefix != _PREFIX or not uid:
        return None
    return uid if hmac.compare_digest(seal, _seal(key, uid)) else None


def _seal(key: bytes, uid: str) -> str:
    if len(key) < 32:
        raise ValueError("the key of claim tokens has at least 32 bytes")
    # The prefix is sealed too: a later form of token cannot be passed off as this one.
    made = hmac.new(key, f"{_PREFIX}.{uid}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
