"""Who may ask: whoever knows the token of this one agent, or of the helper.

Request ─► TokenGuard.check ─► handler
"""

from __future__ import annotations

import hmac

from boilerhouse.platform.rpc.message import Request
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused


class TokenGuard:
    """Compares tokens in constant time. The token itself is never shown, not even by `repr`."""

    def __init__(self, token: str) -> None:
        if len(token) < 16:
            raise ValueError("the token is missing or too short to be one")
        self._token = token.encode()

    def check(self, request: Request) -> None:
        """Raise `Refused` unless the request shows the token."""
        shown = request.headers.get(TOKEN_HEADER, "").encode("latin-1", "replace")
        if not hmac.compare_digest(shown, self._token):
            raise Refused(
                401, "unauthorized", f"the header {TOKEN_HEADER} does not hold the right token"
            )
