"""The handlers, one file per noun of the paths."""
