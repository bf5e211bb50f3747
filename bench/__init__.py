"""Measurements: `make bench` runs them all and prints one table."""
