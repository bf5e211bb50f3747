"""The snapshot helper: the one Pod that talks to agents, and what operator and API need of it."""
