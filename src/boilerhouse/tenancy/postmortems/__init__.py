"""Post-mortems: what is kept of an instance that died. deaths ─► build ─► keep."""
