"""The snapshot helper as a process that can be killed.

python -m tests.faults.helper_program DIRECTORY TOKEN ─► prints its port, serves until SIGTERM
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.store.store import Store


async def serve(directory: Path, token: str) -> None:
    helper = Helper(token, Store.open(directory, SystemClock()))
    listener = socket.create_server(("127.0.0.1", 0))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await helper.start(listener)
    print(listener.getsockname()[1], flush=True)
    await stopping.wait()
    await helper.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
