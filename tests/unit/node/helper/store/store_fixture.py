"""A store on a directory, and the few verbs that tests speak to it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from boilerhouse.core.clock import FakeClock
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.store.volume import Incoming
from boilerhouse.node.helper.wire import Saved, Version

ANNA = Place("anna", "shop")


class Shop:
    """`store` is the open one; `directory` is its volume."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock()
        directory.mkdir(exist_ok=True)

    def open(self) -> None:
        self.store = Store.open(self.directory, self.clock)

    def close(self) -> None:
        self.store.close()

    def again(self) -> None:
        """Close the store and open it anew, as a helper that was restarted."""
        self.close()
        self.open()

    def incoming(self, content: bytes) -> Incoming:
        incoming = self.store.incoming()
        incoming.write(content)
        incoming.settle()
        return incoming

    def save(
        self,
        content: bytes,
        *,
        base: str = "",
        pod: str = "pod-1",
        where: Place = ANNA,
        keep: int = 3,
        side_version: bool = False,
        clean: bool = False,
    ) -> Saved:
        incoming = self.incoming(content)
        try:
            return self.store.save(
                where,
                incoming,
                entries=1,
                content=len(content),
                base=base,
                pod=pod,
                keep=keep,
                side_version=side_version,
                clean=clean,
            )
        finally:
            incoming.discard()

    def put(
        self,
        content: bytes,
        *,
        expect: str | None = None,
        where: Place = ANNA,
        keep: int = 3,
    ) -> tuple[Version, bool]:
        incoming = self.incoming(content)
        try:
            return self.store.put(
                where,
                incoming,
                entries=1,
                content=len(content),
                expect=expect,
                keep=keep,
                held=self.store.holds(where, incoming.digest),
            )
        finally:
            incoming.discard()

    def versions(self, where: Place = ANNA) -> dict[int, str]:
        """Return number and kind of what is stored."""
        shelf = self.store.shelf(where)
        return {one.seq: one.manifest.kind for one in shelf.versions}

    def current(self, where: Place = ANNA) -> bytes | None:
        """Return the bytes that lie at the path people know."""
        file = self.directory / where.tenant / f"{where.workload}.tar.gz"
        return file.read_bytes() if file.exists() else None

    def content(self, seq: int | None = None, where: Place = ANNA) -> bytes:
        file, version = self.store.open_version(where, seq)
        try:
            return os.read(file, version.size + 1)
        finally:
            os.close(file)

    def files(self) -> set[str]:
        """Return every file on the volume but the lock."""
        return {
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if path.is_file() and path.name != ".lock"
        }


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
