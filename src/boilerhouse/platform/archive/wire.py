"""What is said between the zygote of the workers and the process that has it.

forking.py ─► one byte, with the streams of a worker ─► zygote.py
           ◄── SAID: kind, the worker's number, its exit code or the number of an error

Apart from both, since neither is to load what the other needs.
"""

from __future__ import annotations

import struct

SAID = struct.Struct("!cii")
READY, STARTED, REFUSED, ENDED = b"r", b"s", b"n", b"e"
STREAMS = 3  # stdin, stdout, stderr
