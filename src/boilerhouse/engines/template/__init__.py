"""The Pod template of a generation: table ─► rules, merge; config; hashes. Pure."""
