"""Containers as sandboxed processes."""
