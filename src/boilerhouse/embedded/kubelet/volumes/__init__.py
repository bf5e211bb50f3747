"""Pods' volumes, their quotas, and what is left of them."""
