"""An agent's record, written over and over under the recorder.

python -m tests.faults.powerloss.record_program DIRECTORY WRITES
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.mutants import hook

hook.install()

from boilerhouse.node.agent.record import Baseline, Record, Restored  # noqa: E402  by then it is wrong
from tests.faults.powerloss.recorder import mark  # noqa: E402


async def write(directory: Path, writes: int) -> None:
    record = Record(directory)
    for number in range(writes):
        digest = f"{number:064x}"
        restored = Restored("a" * 64, "c0", ("x" * 600,))
        await record.write(restored, Baseline(digest, "f" * 64, until_thaw=True))
        mark(digest)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
