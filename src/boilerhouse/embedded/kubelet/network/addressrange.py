"""A range of loopback addresses and host uids that this process alone hands out on the machine.

    data directory ─► AddressRange.take ─► 4096 numbers of 2^20, held until `release`

Two Boilerhouses on one machine share its loopback network and, as root, its uids: with the same
numbers a tenant of one would be reached at the address of a tenant of the other, and own its files.
A range is held by an abstract Unix socket. Such names belong to the network namespace, exactly as
127.0.0.0/8 does, and the kernel gives them back however the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
from pathlib import Path

from boilerhouse.embedded.kubelet.container import SandboxError

SIZE = 4096  # numbers in a range; four times as many as a Node takes Pods
COUNT = 256  # ranges
_NAME = "\0boilerhouse/addresses/{}"


class AddressRange:
    """Held from `take` to `release`. `number` says which one it is, from 0 to COUNT - 1."""

    def __init__(self, number: int, holder: socket.socket) -> None:
        self.number = number
        self._holder = holder

    @classmethod
    def take(cls, remembered: Path, default: int | None = None) -> AddressRange:
        """Take the range that the file `remembered` names, else any free one, and note it there.

        `default` is the range of a data directory that has no such file yet.
        """
        preferred = _read(remembered)
        if preferred is None:
            preferred = secrets.randbelow(COUNT) if default is None else default
        for step in range(COUNT):
            number = (preferred + step) % COUNT
            holder = _hold(number)
            if holder is not None:
                if _read(remembered) != number:
                    remembered.write_text(f"{number}\n")
                return cls(number, holder)
        raise SandboxError(
            f"all {COUNT} address ranges for Pods are in use on this machine: stop one of the other"
            " Boilerhouses that run here"
        )

    def release(self) -> None:
        self._holder.close()


def _hold(number: int) -> socket.socket | None:
    """Hold a range; None if another process does."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(_NAME.format(number))
    except OSError as error:
        holder.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return holder


def _read(remembered: Path) -> int | None:
    """Return the noted number; None if there is none that makes sense."""
    with contextlib.suppress(OSError, ValueError):
        number = int(remembered.read_text())
        if 0 <= number < COUNT:
            return number
    return None
