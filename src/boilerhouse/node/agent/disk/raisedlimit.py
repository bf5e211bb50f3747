"""The raised disk limit of an instance, in the agent's own volume.

operator: diskGb is 2 by now ─► note ─► an agent that is started again ─► read

The Pod's environment has the diskGb of the time when the Pod was made. An agent that went back to
that would freeze a tenant that has room.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.record import replace

_FILE = "disk-limit.json"


def read(state: Path) -> DiskLimit | None:
    """Return the limit that was noted last; None if it was never raised. Blocks."""
    try:
        return DiskLimit(**json.loads((state / _FILE).read_bytes()))
    except FileNotFoundError:
        return None


def note(state: Path, limit: DiskLimit) -> None:
    """Replace the limit that is noted. Blocks; `OSError` if it cannot be written."""
    replace(state / _FILE, json.dumps(asdict(limit)).encode())
