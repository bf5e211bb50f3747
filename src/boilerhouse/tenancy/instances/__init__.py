"""Instances: the Pods that tenants run in, how they are built and what is seen of them."""
