"""The whole thing on a real node."""
