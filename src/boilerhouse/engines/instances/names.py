"""Names of what belongs to an instance."""

from __future__ import annotations

PORT = 7000  # of the metadata service
VOLUME = "data"


def metadata(instance: str) -> str:
    return f"{instance}-metadata"


def volume(instance: str) -> str:
    """Return the name of the claim that the StatefulSet makes for its one Pod."""
    return f"{VOLUME}-{metadata(instance)}-0"


def address(instance: str, namespace: str) -> str:
    """Return where engines find the metadata service."""
    return f"{metadata(instance)}.{namespace}.svc.cluster.local:{PORT}"
