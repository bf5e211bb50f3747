"""Boilerhouse: a running instance per tenant, hibernated when idle, back where it was."""
