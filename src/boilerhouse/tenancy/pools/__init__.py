"""Pools: warm instances kept ready for a workload. model ─► machine."""
