"""Structural schemas as closures: prune, default, validate. Start at schema.py."""
