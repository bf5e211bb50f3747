"""A game day: the ways in which tenants and callers broke the product, tried on a live `up`."""
