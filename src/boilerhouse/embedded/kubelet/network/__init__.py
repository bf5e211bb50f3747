"""A Pod's network namespace, addresses, ways in and out."""
