"""What an agent must never forget, in the one volume that nobody else mounts.

restore ─► Record.write(restored, baseline) ─► a restore happens once per Pod, and never again
saved   ─► Record.write(baseline) ─► the next save may find that nothing has changed
orders  ─► Record.heed(epoch) ─► one that is older than another is not carried out
full    ─► Refused (507) ─► all is as it was, on the disk and here

One file, replaced by one rename: written, synced, renamed, and the directory synced, in this order.
So whenever the power goes, what is there is what it was before or what it is after, and once
`write` has returned it is the latter. (`baseline` and `restored` in two files could disagree.)
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from boilerhouse.platform.files.durable import sync_directory
from boilerhouse.platform.rpc.refusal import Refused

_FILE = "record.json"


@dataclass(frozen=True, slots=True)
class Baseline:
    """A stored version, and what the overlays looked like when they were equal to it.

    `until_thaw`: taken of a tenant that was halted, and worth nothing once it runs on. A file that
    it has mapped may then change without any time of change to tell of it: the kernel notes the
    first write to a page, and that write may lie before the snapshot.
    """

    digest: str
    fingerprint: str
    until_thaw: bool

    def equals(self, digest: str, fingerprint: str) -> bool:
        return (self.digest, self.fingerprint) == (digest, fingerprint)


@dataclass(frozen=True, slots=True)
class Restored:
    """The restore of this Pod. `container`: the tenant's container before it.

    `boot` and `settled`: in which run of the machine, and whether it is all on the disk
    (settling.py).
    """

    digest: str
    container: str
    skipped: tuple[str, ...] = ()
    boot: str = ""
    settled: bool = False


class Record:
    """`restored`, `baseline` and `round` as they are on the disk.

    `round` is the highest number that came with an order to save or to thaw. Operators number their
    orders, and may be delayed, or two: what one of them sent before the other decided otherwise
    must not be done after it.

    What cannot be written is `Refused`, and not remembered either.
    """

    def __init__(self, directory: Path) -> None:
        """Read it. A blocking call; a file that is not ours to understand is an error."""
        self._directory = directory
        self.restored: Restored | None = None
        self.baseline: Baseline | None = None
        self.epoch = 0
        self._ahead = False  # the file may hold what could not be synced, and is not remembered
        try:
            told = json.loads((directory / _FILE).read_bytes())
        except FileNotFoundError:
            return
        if told["restored"] is not None:
            fields = told["restored"]
            self.restored = Restored(**{**fields, "skipped": tuple(fields["skipped"])})
        if told["baseline"] is not None:
            self.baseline = Baseline(**told["baseline"])
        self.epoch = told.get("round", 0)

    async def write(self, restored: Restored | None, baseline: Baseline | None) -> None:
        """Have both on the disk; one write at a time, which the caller sees to."""
        await asyncio.to_thread(self._write, restored, baseline, self.epoch)
        self.restored, self.baseline = restored, baseline

    async def heed(self, epoch: int) -> None:
        """Note the number of an order before it is carried out; 0 is none."""
        if epoch > self.epoch:
            await asyncio.to_thread(self._write, self.restored, self.baseline, epoch)
            self.epoch = epoch

    async def thawing(self) -> None:
        """Forget what does not hold for a tenant that runs."""
        spent = self.baseline is not None and self.baseline.until_thaw
        if spent or self._ahead:
            await self.write(self.restored, None if spent else self.baseline)

    def _write(self, restored: Restored | None, baseline: Baseline | None, epoch: int) -> None:
        told = {
            "restored": None if restored is None else asdict(restored),
            "baseline": None if baseline is None else asdict(baseline),
            "round": epoch,
        }
        try:
            replace(self._directory / _FILE, json.dumps(told).encode())
            self._ahead = True
            sync_directory(self._directory)
        except OSError as error:
            raise unwritten(error) from error
        self._ahead = False


def unwritten(error: OSError) -> Refused:
    """Say why the agent could not note something in its own volume."""
    what = "the agent's record cannot be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refused(507, "disk-full", f"{what}: the disk is full; make room on it")
    return Refused(500, "io-error", f"{what}: {error.strerror or error}")


@contextlib.contextmanager
def draft_of(file: Path) -> Iterator[Path]:
    """Have a file replaced by what is written here; a failure leaves the old one and no more."""
    draft = file.with_name(file.name + ".new")
    try:
        yield draft
        draft.rename(file)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def replace(file: Path, content: bytes) -> None:
    """Replace a file so that a power loss leaves the old or the new, and never less."""
    with draft_of(file) as draft:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(opened, left) :]
            os.fsync(opened)
        finally:
            os.close(opened)
