"""Processes of this machine: brought to a standstill."""
