"""`python -m boilerhouse.helper`: the helper as a Pod of its own.

mounted token ─► Helper ─► port 7710
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from boilerhouse.agent import running
from boilerhouse.core.names import HELPER_PORT
from boilerhouse.helper import layout
from boilerhouse.helper.helper import Helper


def main() -> None:
    """Serve until SIGTERM."""
    running.log_json()
    token = running.read_token(Path(layout.TOKEN_FILE))

    async def run() -> None:
        await running.serve(Helper(token), HELPER_PORT)

    asyncio.run(run())


if __name__ == "__main__":
    main()
