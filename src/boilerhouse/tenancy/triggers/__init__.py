"""Triggers: what wakes a tenant from outside. model, machine ─► decide ─► apply."""
