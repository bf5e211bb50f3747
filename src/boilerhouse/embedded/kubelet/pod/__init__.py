"""One Pod from its admission to its end."""
