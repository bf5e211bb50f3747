"""The contents of an archive's files, written by two processes beside each other.

    Tree ─► ParallelWriter ─► Batch ─► the second process, or this one if that has enough to do
                 ◄── done ──┘

To make a file is mostly the kernel's work, and Python's own for each is nearly as much: one process
that does all of it takes longer than `tar`, which has gzip beside it. A second is worth its fork
only for more than a little; until then this one writes every batch itself.

All else is done by this process alone, in the archive's order. Nothing is made, entered or linked
by a name that is in a batch under way, and no directory is removed, or finished, or entered again
while anything for it is: that is waited for first. So which of the two was faster cannot be seen in
what they leave behind.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from mmap import mmap

from boilerhouse.platform.archive.batch import BYTES, Batch, Open, Owner, write
from boilerhouse.platform.archive.entries import not_written, twice
from boilerhouse.platform.archive.header import Member
from boilerhouse.platform.archive.reader import Parts
from boilerhouse.platform.archive.source import Source
from boilerhouse.platform.archive.writer_process import WriterProcess

SMALL = 64 << 10  # bytes of a file that is made with its batch
_GIVEN = 4  # batches that the second process has at once
_ALONE = 16  # batches until there is one


class ParallelWriter:
    """Writes what is in files, sooner or later; `settle` waits until it is there.

    Of several that cannot be written, the archive's first is told.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._contents = mmap(-1, BYTES * (_GIVEN + 1))
        self._free = [number * BYTES for number in range(_GIVEN + 1)]
        self._batch = Batch(self._free.pop())
        self._given: dict[int, Batch] = {}  # to the second process, by where they start
        self._writer_process: WriterProcess | None = None
        self._done = 0
        self._alone = _ALONE
        self._failed = False

    def file(
        self, here: Open, parts: Parts, member: Member, mode: int, owner: Owner | None
    ) -> None:
        """Take a small file from the source; it is made in that directory soon."""
        name, size = parts[-1], member.size
        if name in here.under_way:
            self.settle()
        batch = self._batch
        if not batch.fits(here, size):
            batch = self._hand_over()
        start = batch.start + batch.used
        self._source.copy(self._contents, start, size)
        batch.used += size
        here.under_way.add(name)
        number = batch.number(here)
        batch.parts.append((number, start, size, name, mode, owner, member.mtime))
        batch.entries.append(_brief(member.name, parts))

    def content(self, file: Open, parts: Parts, member: Member, offset: int, length: int) -> None:
        """Take so much of a file's content from the source; it is written there soon."""
        while length:
            batch = self._batch
            if not batch.fits(file, min(length, SMALL)):
                batch = self._hand_over()
            size = min(length, BYTES - batch.used)
            start = batch.start + batch.used
            self._source.copy(self._contents, start, size)
            batch.used += size
            batch.parts.append((batch.number(file), start, size, b"", 0, None, offset))
            batch.entries.append(_brief(member.name, parts))
            offset += size
            length -= size

    def leave(self, opened: Open) -> None:
        """Finish a file or directory, once everything in it is written."""
        opened.left = True
        if not opened.batches:
            opened.finish()

    def settle(self) -> None:
        """Wait until everything is written, unless something could not be."""
        if not self._failed:
            if self._batch.parts:
                self._write()
            self._hear_all()

    def close(self) -> None:
        """End the second process, whatever it does."""
        if self._writer_process is not None:
            self._writer_process.kill()
            self._writer_process = None

    def _hand_over(self) -> Batch:
        """Have the current batch written by whoever has time; return the next one, empty."""
        if self._writer_process is None and self._done >= self._alone:
            self._alone += _ALONE
            with suppress(OSError):  # no more processes here: it takes longer then
                self._writer_process = WriterProcess(self._contents)
        while self._hear(wait=False):
            pass
        if self._writer_process is not None and len(self._given) < _GIVEN:
            self._writer_process.send(self._batch)
            self._given[self._batch.start] = self._batch
            self._batch = Batch(self._free.pop())
        else:
            self._write()
        return self._batch

    def _write(self) -> None:
        """Write the current batch."""
        batch = self._batch
        done, error = write(self._contents, batch.descriptors(), batch.parts)
        if error:
            self._hear_all()  # of those before it
        self._take_back(batch, done, error)
        self._batch = Batch(self._free.pop())

    def _hear_all(self) -> None:
        while self._hear(wait=True):
            pass

    def _hear(self, wait: bool) -> bool:
        """Take back a batch from the second process; False if there is none."""
        if self._writer_process is None or not self._given:
            return False
        told = self._writer_process.hear(wait)
        if told is None:
            return False
        start, done, error = told
        self._take_back(self._given.pop(start), done, error)
        return True

    def _take_back(self, batch: Batch, done: int, error: int) -> None:
        """Put a batch away; raises what went wrong with it."""
        while error == errno.EISDIR and self._is_removed(batch, done):
            more, error = write(self._contents, batch.descriptors(), batch.parts[done:])
            done += more
        if error:
            self._failed = True
            name, parts = batch.entries[done]
            raise twice(parts) if error == errno.EISDIR else not_written(name, error)
        self._done += 1
        self._free.append(batch.start)
        batch.done()

    def _is_removed(self, batch: Batch, number: int) -> bool:
        """Remove a directory where a file is to be, if nothing is in it.

        Nor is anything on its way there: earlier batches are done, and later ones wait for this.
        """
        part = batch.parts[number]
        try:
            os.rmdir(part[3], dir_fd=batch.opened[part[0]].file)
        except OSError:
            return False
        return True


def _brief(name: bytes, parts: Parts) -> tuple[bytes, Parts]:
    """Return as much of a name as an error tells: that of a deep entry may be of megabytes."""
    if len(name) <= 4096:
        return name, parts
    return name[:1000] + name[-1000:], [*parts[:50], *parts[-50:]]
