"""The snapshot helper as a process of its own, as on a cluster; it stores nothing of anybody.

helper(directory, token) ─► python -m bench.helper DIRECTORY, token on stdin ─► its port
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from boilerhouse.core.clock import SystemClock
from boilerhouse.helper.helper import Helper
from boilerhouse.helper.store.store import Store


@asynccontextmanager
async def helper(directory: Path, token: str) -> AsyncIterator[int]:
    """Run one on a free port of this machine; yield the port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.helper", str(directory)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(token.encode() + b"\n")
        yield int(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def serve(store: Store, token: str) -> None:
    served = Helper(token, store)
    listener = socket.create_server(("127.0.0.1", 0))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await served.start(listener)
    print(listener.getsockname()[1], flush=True)
    await stopping.wait()
    await served.stop()


if __name__ == "__main__":
    volume = Path(sys.argv[1])
    volume.mkdir()
    asyncio.run(serve(Store.open(volume, SystemClock()), sys.stdin.readline().strip()))
