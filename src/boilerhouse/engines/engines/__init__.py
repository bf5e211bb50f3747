"""FireboltEngine: one server, and the generations of its Pods. model ─► machine ─► decide."""
