"""The embedded Kubernetes API by itself, as a program: no kubelet, no operator, nobody who acts.

python -m tests.e2e.bare_api DIR, until SIGINT
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.embedded_fixture import open_world


async def serve(directory: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    world = await open_world(directory)
    print("is up", flush=True)
    await stop.wait()
    await world.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
