"""Directories of an instance: how they are written, and which lie inside which.

Paths are compared as text, so only one spelling of each is let in: no `.` or `..`, no double or
trailing slash.
"""

from __future__ import annotations

# A component is anything but "." and "..": it starts otherwise, or goes on after its dots. No
# colon, since a volume cannot be mounted there.
_CHAR = r"[^/:\x00-\x1f\x7f]"
_PART = rf"([^./:\x00-\x1f\x7f]{_CHAR}*|\.[^./:\x00-\x1f\x7f]{_CHAR}*|\.\.{_CHAR}+)"

# Absolute, normalised, and not "/".
ABSOLUTE = rf"^(/{_PART})+\Z"
# Relative, normalised, and never leading out.
RELATIVE = rf"^{_PART}(/{_PART})*\Z"

# The system's own directories, and the one in which an instance finds its identity.
RESERVED = ("/dev", "/proc", "/run/boilerhouse", "/sys")


def within(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or lies below it."""
    return inner == outer or inner.startswith(outer + "/")
