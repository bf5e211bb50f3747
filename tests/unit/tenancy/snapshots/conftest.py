"""The client's half of the helper is tried against the helper."""

from __future__ import annotations

from tests.unit.node.helper.conftest import house, store

__all__ = ["house", "store"]
