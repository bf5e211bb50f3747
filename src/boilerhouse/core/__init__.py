"""The vocabulary of the house: imports nothing of ours and does no I/O."""
