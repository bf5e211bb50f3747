"""Which release this is, as the installed package says; asked by the CLI and by /version."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Return the release, for example `0.1.0`."""
    from importlib.metadata import version as installed  # 20 ms that a start need not pay

    return installed("boilerhouse")
