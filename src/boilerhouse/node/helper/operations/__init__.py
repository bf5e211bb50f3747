"""What the helper does with snapshots: saves, restores, imports, exchanges."""
