"""Domains of instances per tenant: a folder a noun, the same files in each."""
