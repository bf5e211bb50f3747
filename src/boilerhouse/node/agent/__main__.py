"""`python -m boilerhouse.node.agent`: the agent as the sidecar of a Pod.

mounts of the Pod ─► Config ─► Agent ─► port 7711
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import AGENT_PORT
from boilerhouse.node.agent import layout, running
from boilerhouse.node.agent.agent import Agent, Config
from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.freezer.processes import PodProcesses


def main() -> None:
    """Serve until SIGTERM, and then until what the tenant has left is saved."""
    running.log_json()
    gb = int(os.environ.get(layout.DISK_VARIABLE, "0"))
    config = Config(
        identity=Path(layout.IDENTITY_DIR),
        overlays=overlays(Path("/proc/self/mountinfo").read_bytes()),
        state=Path(layout.STATE_DIR),
        token=running.read_token(Path(layout.TOKEN_FILE)),
        restore=os.environ.get(layout.RESTORE_VARIABLE, ""),
        disk=DiskLimit.of_gb(gb) if gb else None,
    )
    agent = Agent(config, PodProcesses(), SystemClock())
    asyncio.run(running.serve(agent, AGENT_PORT, agent.dispensable))


def overlays(mountinfo: bytes) -> dict[str, Path]:
    """Find the overlay directories: what the Pod mounts under OVERLAY_ROOT.

    The mounts themselves are asked, so nothing has to be told twice and nothing can disagree.
    """
    found = {}
    for line in mountinfo.splitlines():
        # proc(5): the fifth field, with blanks and backslashes as octal escapes
        where = line.split()[4].decode("unicode_escape").encode("latin-1").decode()
        if where.startswith(layout.OVERLAY_ROOT + "/"):
            found[where.removeprefix(layout.OVERLAY_ROOT)] = Path(where)
    return found


if __name__ == "__main__":
    main()
