"""The disk limit of an instance: counted, monitored, enforced by freezing or by a quota."""
