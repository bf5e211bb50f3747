"""Regular expressions that Python and the API server read alike, and the few that all kinds use.

Python's `$` also matches before a last newline, so our patterns end in `\\Z`; RE2 has no `\\Z`, but
its `$` means just that. Python's \\d, \\w, \\s and \\b know Unicode, RE2's only ASCII: not used.

    pattern ─┬─► msgspec Meta(pattern=…)
             └─► re2() ─► schema "pattern", CEL matches()
"""

from __future__ import annotations

import re

# In the `extra` of a Meta: what the pattern beside it asks for, in words that follow "must be".
MEANING = "meaning"

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z"

# Text that can be an argument or an environment variable of a process.
NO_NUL = r"^[^\x00]*\Z"

# host, name, name:tag, name@digest, team/name, registry.example:5000/team/name:tag@digest.
_IMAGE_HOST = r"([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_IMAGE_REGISTRY = rf"({_IMAGE_HOST}|\[[0-9a-fA-F:]+\])(:[0-9]{{1,5}})?"
_IMAGE_PART = r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*"
_IMAGE_DIGEST = r"[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}"
IMAGE = (
    rf"^({_IMAGE_REGISTRY}/)?{_IMAGE_PART}(/{_IMAGE_PART})*"
    rf"(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{{0,127}})?(@{_IMAGE_DIGEST})?\Z"
)

_ODD = re.compile(r"\\[dDwWsSbBAz]|\$|\(\?|\\Z.")


class OddPattern(ValueError):
    """A pattern that Python and RE2 would read differently."""


def re2(pattern: str) -> str:
    """Return the pattern as the API server must spell it."""
    if _ODD.search(pattern):
        raise OddPattern(f"Python and RE2 read this pattern differently: {pattern}")
    return pattern.removesuffix(r"\Z") + ("$" if pattern.endswith(r"\Z") else "")


def in_cel(pattern: str) -> str:
    """Return the pattern as a CEL literal, for `matches`."""
    return f"r'{re2(pattern)}'"
