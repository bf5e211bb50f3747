"""One lock per name, for as long as somebody wants it.

with Locks.of(tenant): …        two of one tenant wait for each other, two tenants never do
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Locks:
    """Locks for threads, made when first wanted and gone when nobody does."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._wanted: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        with self._guard:
            lock, users = self._wanted.get(name) or (threading.Lock(), 0)
            self._wanted[name] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._wanted.pop(name)
                if users > 1:
                    self._wanted[name] = lock, users - 1
