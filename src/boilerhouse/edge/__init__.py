"""What callers reach: the REST API."""
