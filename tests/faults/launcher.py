"""Starts workloads in forked children, so that each begins in milliseconds and can be killed.

stdin: [directory, run, seed, told-file] per line ──► fork ──► stdout: pid, then "gone" when it died

Told lines go to a file by plain write(2): they survive SIGKILL exactly as far as they were told.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.faults.workload import Workload


def child(directory: str, run: int, seed: int, told: str) -> None:
    fd = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(*line: object) -> None:
        os.write(fd, json.dumps(line).encode() + b"\n")

    asyncio.run(Workload(run, seed, None, tell).work(Path(directory)))


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(*json.loads(line))
            os._exit(0)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("gone", flush=True)


if __name__ == "__main__":
    main()
