"""Which user a Pod is to the kernel and where it is reached: one number for both, remembered.

    pod uid ─► Identities.take ─► n ─► host uid 1900000000+n, address 127.16.0.0+n

Run as root, each Pod is another user to the kernel, so that two tenants are strangers even where a
namespace fails; its files on disk belong to that uid, so it must be the same after a restart. An
ordinary user has only one uid to give. Numbers come from a range that no other Boilerhouse on the
machine uses (addressrange.py). Where the range is another one than when the Pod got its number, the
uid stays, since files belong to it, and the address moves into the present range.

A number is taken by making the symbolic link `<n>` → pod uid, which either succeeds or not. It
needs no fsync: on the file systems we know, syncing a file the tenant wrote later syncs it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.network.addressrange import SIZE, AddressRange

# Above the ranges that distributions give to users' containers and below what looks negative.
_FIRST_UID = 1_900_000_000


@dataclass(frozen=True, slots=True)
class Identity:
    uid: int
    gid: int
    address: str


class Identities:
    """The numbers in use, kept in a directory. Holds its range until `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._numbers: dict[str, int] = {}
        for entry in directory.iterdir():
            if entry.name.isdecimal() and entry.is_symlink():
                self._numbers[str(entry.readlink())] = int(entry.name)
        default = min(self._numbers.values()) // SIZE if self._numbers else None
        self._range = AddressRange.take(directory / "range", default)
        self._first = self._range.number * SIZE
        self._places: dict[str, int] = {}  # of each Pod in the present range
        self._taken: set[int] = set()
        self._last = 0
        # Numbers of this range have their own place in it; others get what is left, as near as can
        # be: so a new Pod's number, which is that of a free place, is never an old one's.
        by_home = sorted(
            self._numbers.items(), key=lambda one: (one[1] // SIZE != self._range.number, one[1])
        )
        for pod_uid, number in by_home:
            self._settle(pod_uid, number % SIZE)
        self._last = max(self._taken, default=0)

    def take(self, pod_uid: str) -> Identity:
        """Return the Pod's identity: the one it has, else a new one, freed ones last."""
        if pod_uid not in self._numbers:
            # Round and round, so that what outlives a Pod by mistake does not meet the next one.
            self._last = self._settle(pod_uid, self._last + 1)
            number = self._first + self._last
            (self._directory / str(number)).symlink_to(pod_uid)
            self._numbers[pod_uid] = number
        return _identity(self._numbers[pod_uid], self._first + self._places[pod_uid])

    def pods(self) -> set[str]:
        """Return the uids of all Pods that have a number."""
        return set(self._numbers)

    def free(self, pod_uid: str) -> None:
        number = self._numbers.pop(pod_uid, None)
        if number is not None:
            self._taken.discard(self._places.pop(pod_uid))
            (self._directory / str(number)).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the range back; the numbers stay."""
        self._range.release()

    def _settle(self, pod_uid: str, wanted: int) -> int:
        """Give a Pod the first free place from `wanted` on."""
        for step in range(SIZE):
            place = (wanted + step) % SIZE
            # Not what looks like the address of a network or of all in it.
            if place not in self._taken and place % 256 not in (0, 255):
                self._places[pod_uid] = place
                self._taken.add(place)
                return place
        raise SandboxError("every address for Pods is taken")


def _identity(number: int, place: int) -> Identity:
    address = f"127.{16 + (place >> 16)}.{place >> 8 & 255}.{place & 255}"
    if os.geteuid():
        return Identity(os.getuid(), os.getgid(), address)
    return Identity(_FIRST_UID + number, _FIRST_UID + number, address)
