"""The server of the wire is tried in the agent: its routes are real ones."""

from __future__ import annotations

from tests.unit.node.agent.conftest import rig

__all__ = ["rig"]
