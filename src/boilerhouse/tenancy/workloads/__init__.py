"""Workloads: blueprints of instances. model (what one says) ─► machine (where one is)."""
