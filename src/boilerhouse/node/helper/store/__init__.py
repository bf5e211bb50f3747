"""The stored snapshots: immutable versions on a volume, and the one rename that commits."""
