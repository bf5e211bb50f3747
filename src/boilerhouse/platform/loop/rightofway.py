"""What eventloop.py looks at of priority.py."""

from __future__ import annotations

from boilerhouse.platform.loop.priority import PIECE, Piece

__all__ = ["PIECE", "Piece"]
