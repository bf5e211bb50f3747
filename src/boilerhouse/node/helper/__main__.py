"""`python -m boilerhouse.node.helper`: the helper as a Pod of its own.

mounted token and volume ─► Store ─► Helper ─► port 7710
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import HELPER_PORT
from boilerhouse.node.agent import running
from boilerhouse.node.helper import layout
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.store.volume import VolumeUnfit


def main() -> None:
    """Serve until SIGTERM."""
    running.log_json()
    token = running.read_token(Path(layout.TOKEN_FILE))

    try:
        store = Store.open(Path(layout.SNAPSHOTS_DIR), SystemClock())
    except (VolumeUnfit, OSError) as error:
        sys.exit(f"the volume of the snapshots cannot be used: {error}")

    async def run() -> None:
        await running.serve(Helper(token, store), HELPER_PORT)

    asyncio.run(run())


if __name__ == "__main__":
    main()
