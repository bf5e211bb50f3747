"""Programs that run beside tenants: the agent in every Pod, the snapshot helper."""
