"""The processes: `up`, `operator`, `api`. Composition only."""
