"""The decision about a claim, by phase. Pure."""
