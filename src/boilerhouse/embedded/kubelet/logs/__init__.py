"""Containers' output: written, rotated, read back, followed."""
