"""Disruptions: no instance is evicted before it is saved, nor who saves it. build ─► keep."""
