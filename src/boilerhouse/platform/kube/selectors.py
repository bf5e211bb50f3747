"""Label selectors as a mapping: what we ask a server for, and what we can tell ourselves.

{"app": "web", "managed": None} ──► "app=web,managed"

Equality and existence only: these two we can also judge on this side of the wire, which the
informer must do with its own writes.
"""

from __future__ import annotations

from collections.abc import Mapping

Labels = Mapping[str, str | None]  # None: the label exists, whatever its value


def render(labels: Labels) -> str:
    """Spell the selector as the API takes it."""
    return ",".join(
        key if value is None else f"{key}={value}" for key, value in sorted(labels.items())
    )


def matches(labels: Labels, have: Mapping[str, str]) -> bool:
    """Tell whether an object with labels `have` is selected."""
    return all(key in have and value in (None, have[key]) for key, value in labels.items())
