"""What may be created: quotas, limit ranges, and the quantities they count in."""
