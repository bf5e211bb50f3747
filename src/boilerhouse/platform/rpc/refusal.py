"""Refusals on the wire between operator, helper and agent, and the headers every answer has."""

from __future__ import annotations

import json

# `Authorization` is eaten by the API server's proxy on the way to the helper.
TOKEN_HEADER = "x-boilerhouse-token"  # noqa: S105  the header's name
ANSWERED_BY = "x-boilerhouse-answered-by"  # by it a proxy's own errors are told from ours
JSON = "application/json"


class Refused(Exception):
    """An answer that is not a success: HTTP status, a code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def body(self) -> bytes:
        return json.dumps({"error": str(self), "code": self.code}).encode()

    @classmethod
    def of(cls, status: int, body: bytes) -> Refused:
        """Read an answer that is not a success, whatever its body holds."""
        try:
            told = json.loads(body)
            return cls(status, str(told["code"]), str(told["error"]))
        except (ValueError, KeyError, TypeError):
            return cls(status, "unknown", f"answered {status}: {body[:200]!r}")
