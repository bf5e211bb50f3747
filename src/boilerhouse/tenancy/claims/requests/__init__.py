"""Claiming and releasing as a caller asks for them: inline passes until it is done."""
