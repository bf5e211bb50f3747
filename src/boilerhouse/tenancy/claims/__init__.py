"""Claims: one tenant bound to one instance of one workload. model ─► machine."""
