"""Rules of CRDs: the language CEL, typed by the schema. syntax ─► compile ─► rules."""
