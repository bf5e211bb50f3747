"""Disruptions: no claimed instance is evicted before it is saved. build ─► keep."""
