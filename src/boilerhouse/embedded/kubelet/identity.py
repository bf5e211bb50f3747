"""Who a Pod is to the kernel and where it is reached: one number for both, remembered.

    pod uid ─► Identities.take ─► n ─► host uid 1900000000+n, address 127.16.0.0+n

Run as root, each Pod is another user to the kernel, so that two tenants are strangers even where a
namespace fails; its files on disk belong to that uid, so it must be the same after a restart. An
ordinary user has only one uid to give.

A number is taken by making the symbolic link `<n>` → pod uid, which either succeeds or not. It
needs no fsync: on the file systems we know, syncing a file the tenant wrote later syncs it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from boilerhouse.embedded.kubelet.container import SandboxError

# Above the ranges that distributions give to users' containers and below what looks negative.
_FIRST_UID = 1_900_000_000
_LAST = 1 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    uid: int
    gid: int
    address: str


class Identities:
    """The numbers in use, kept in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._numbers: dict[str, int] = {}
        for entry in directory.iterdir():
            if entry.name.isdecimal() and entry.is_symlink():
                self._numbers[str(entry.readlink())] = int(entry.name)
        self._used = set(self._numbers.values())
        self._last = max(self._used, default=0)

    def take(self, pod_uid: str) -> Identity:
        """Return the Pod's identity: the one it has, else a new one, freed ones last."""
        number = self._numbers.get(pod_uid)
        if number is None:
            number = self._free_number()
            (self._directory / str(number)).symlink_to(pod_uid)
            self._numbers[pod_uid] = number
            self._used.add(number)
            self._last = number
        return _identity(number)

    def free(self, pod_uid: str) -> None:
        number = self._numbers.pop(pod_uid, None)
        if number is not None:
            self._used.discard(number)
            (self._directory / str(number)).unlink(missing_ok=True)

    def _free_number(self) -> int:
        # Round and round, so that what outlives a Pod by mistake does not meet the next one soon.
        for step in range(1, _LAST):
            number = (self._last + step - 1) % (_LAST - 1) + 1
            if number not in self._used and number % 256 not in (0, 255):
                return number
        raise SandboxError("every address for Pods is taken")


def _identity(number: int) -> Identity:
    address = f"127.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    if os.geteuid():
        return Identity(os.getuid(), os.getgid(), address)
    return Identity(_FIRST_UID + number, _FIRST_UID + number, address)
