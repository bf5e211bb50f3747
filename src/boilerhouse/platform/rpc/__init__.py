"""The small HTTP/1.1 that agents and the snapshot helper speak."""
