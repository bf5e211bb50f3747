"""Overlays as gzip tar streams, out and in: no HTTP, and nothing heavy in this process."""
