"""The agent: a small program beside each tenant's container, and the protocol spoken with it."""
