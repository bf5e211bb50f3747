"""Bytes between connections and the volume, a few blocks at a time.

Body ─► receive ─► Incoming        version ─► ArchiveBody ─► connection

Hashing, writing and reading let go of the interpreter's lock, in threads of the helper's own: the
event loop only hands blocks on, and while one is written the next arrives.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from boilerhouse.node.helper.store.volume import Incoming
from boilerhouse.node.helper.wire import Version
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Body

P = ParamSpec("P")
R = TypeVar("R")

BLOCK = 512 << 10  # written at once
PIECE = 1 << 20  # read at once


class Threads:
    """The helper's own threads: so many blocking calls at a time."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="snapshots")

    def begin(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Start a blocking call. It goes on if whoever waits for it is cancelled."""
        return asyncio.get_running_loop().run_in_executor(
            self._pool, partial(call, *args, **kwargs)
        )

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.begin(call, *args, **kwargs)

    async def close(self) -> None:
        """Wait for what is under way: a commit is short, and is not left half-way."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


async def receive(body: Body, incoming: Incoming, threads: Threads) -> None:
    """Write a body to its end. Whatever the body raises comes out as it is."""
    block: list[bytes] = []
    size = 0
    writing: asyncio.Future[None] | None = None
    try:
        async for piece in body:
            block.append(piece)
            size += len(piece)
            if size >= BLOCK:
                if writing is not None:
                    await writing
                writing = threads.begin(incoming.write, *block)
                block, size = [], 0
    finally:
        if writing is not None:
            await asyncio.wait({writing})
            writing.exception()  # looked at, also if the body's own is the one that counts
    if writing is not None:
        writing.result()
    await threads.run(incoming.write, *block)


class ArchiveBody(Body):
    """A stored archive as it is sent. Wrong bytes are never sent to their end.

    The last piece is held back until the whole is known to be what was stored; if it is not, the
    body breaks off and `corrupt` is true. While one piece is on its way the next is read.
    """

    def __init__(self, file: int, version: Version, threads: Threads) -> None:
        self.length = version.size
        self.corrupt = os.fstat(file).st_size != version.size
        self._file = file
        self._digest = version.digest
        self._hash = hashlib.sha256()
        self._left = version.size
        self._threads = threads
        self._guard = threading.Lock()  # a number must not be closed while it is read from
        self._ahead: asyncio.Future[bytes] | None = None
        if self._left and not self.corrupt:
            self._ahead = threads.begin(self._read, self._left)  # whoever takes it is not ready yet

    async def __anext__(self) -> bytes:
        if self.corrupt:
            raise Broken("the stored archive is damaged")
        if not self._left or self._file < 0:
            raise StopAsyncIteration
        reading, self._ahead = self._ahead or self._threads.begin(self._read, self._left), None
        piece = await reading
        self._left -= len(piece)
        if piece and self._left:
            self._ahead = self._threads.begin(self._read, self._left)
        if not piece or (not self._left and self._hash.hexdigest() != self._digest):
            self.corrupt = True
            raise Broken("the stored archive is damaged")
        return piece

    def _read(self, left: int) -> bytes:
        with self._guard:
            try:
                piece = os.read(self._file, min(left, PIECE))
            except OSError:
                piece = b""  # what cannot be read is as good as not there
        self._hash.update(piece)
        return piece

    async def close(self) -> None:
        if self._ahead is None and not self._guard.locked():
            self._close()  # nobody reads
        else:
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._guard:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
