"""Merge patches: what to send so that one document becomes another. Pure.

old status, new status ─► difference() ─► {} (nothing to write) or the smallest patch
patch, object as seen  ─► bound()      ─► a patch that the server refuses if it is not so any more
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from boilerhouse.core.names import FINALIZER

Body = dict[str, Any]


class AsSeen(Protocol):
    """An object at one moment: its name, and what tells it from any other and any later one."""

    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...


class _Phased(Protocol):
    @property
    def phase(self) -> str: ...


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Body:
    """Return the merge patch (RFC 7386) from `old` to `new`: None removes, lists are whole."""
    patch: Body = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
            continue
        before = old[key]
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def bound(seen: AsSeen, patch: Body) -> Body:
    """Bind a patch to the very version that was seen: of any other the server refuses it."""
    as_seen = {"uid": seen.uid, "resourceVersion": seen.version}
    return {**patch, "metadata": {**patch.get("metadata", {}), **as_seen}}


def status_patch(before: _Phased, after: _Phased) -> Body:
    """Return the patch from one status to another."""
    return {"status": difference(_plain(before), _plain(after))}


def finalizers_patch(finalizers: tuple[str, ...], *, held: bool) -> Body:
    """Return the patch that puts our finalizer on, or takes it, and no other, off."""
    others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    wanted = [*others, FINALIZER] if held else others
    return {"metadata": {"finalizers": wanted or None}}


def _plain(status: _Phased) -> Body:
    # The first phase is a default, which is left out; but a phase that was written must stay.
    plain: Body = msgspec.to_builtins(status)
    return {**plain, "phase": str(status.phase)}
