"""The process that all containers descend from, and how it is spoken to."""
