"""Engines: stateful servers that are replaced as a whole, blue by green (S2)."""
