"""Where objects live: memory for reads, SQLite for truth, one lock per data directory.

Start at store.py.
"""
