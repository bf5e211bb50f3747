"""A world with a kubelet, to be killed: `python -m tests.faults.kubelet_program DIR`.

Prints one line when it serves.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from boilerhouse.run.kubelet import kubelet_settings
from tests.embedded_fixture import open_world


async def serve(directory: Path) -> None:
    world = await open_world(directory, kubelet_settings({}))
    print("serving", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await world.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
