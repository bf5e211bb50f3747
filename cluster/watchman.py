"""Ends the processes of an API world whose owner died without stopping it.

The owner holds the other end of our standard input; when it is gone, however it went, the input
ends, and what is still recorded is stopped.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from cluster.processes import Processes


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
    directory = Path(sys.argv[1])
    sys.stdin.buffer.read()
    processes = Processes(directory / "run", directory / "logs")
    processes.stop(*processes.names(), grace=0)


if __name__ == "__main__":
    main()
