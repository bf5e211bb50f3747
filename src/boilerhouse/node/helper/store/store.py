"""The store: who has which versions, and the verbs that change that.

current, page, open ─► Shelf (remembered)
save, put, promote, delete, exempt ─► tenant's lock ─► rules ─► Shelves

Everything but `peek` may block and is called from threads. The volume is locked, so nobody else
changes it: what was read once is remembered, and tenants without any snapshot (most of those that
claim for the first time) are answered without a look at the disk.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.core.names import is_tenant_id
from boilerhouse.node.helper.store import places, rules
from boilerhouse.node.helper.store.intact import read_through
from boilerhouse.node.helper.store.locks import Locks
from boilerhouse.node.helper.store.manifest import Manifest, Shelf, Stored
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.shelves import Shelves
from boilerhouse.node.helper.store.volume import Incoming, Volume, clear_errors, names
from boilerhouse.node.helper.wire import Kind, Page, Saved, Version
from boilerhouse.platform.rpc.refusal import Refused

log = logging.getLogger(__name__)

REMEMBERED = 1000  # shelves, some 8 KiB each
PAGE = 500  # places in one part of a list
PAGE_SECONDS = 10.0  # and how long it may take: each may have to be adopted


class Store:
    """An open store. Made by `open`, ended by `close`."""

    def __init__(self, volume: Volume, clock: Clock) -> None:
        self._volume = volume
        self._clock = clock
        self._shelves = Shelves(volume, lambda: rfc3339(clock.now()))
        self._remembered: OrderedDict[Place, Shelf] = OrderedDict()
        self._guard = threading.Lock()  # of what is remembered, never held across the disk
        self._locks = Locks()
        self._tenants = {
            name
            for directory in (volume.root, volume.versions)
            for name in names(directory)
            if is_tenant_id(name)
        }

    @classmethod
    def open(cls, directory: Path, clock: Clock) -> Store:
        """Take the volume; `VolumeUnfit` if it will not do, or somebody else holds it."""
        volume = Volume.open(directory)
        try:
            return cls(volume, clock)
        except BaseException:
            volume.close()
            raise

    def close(self) -> None:
        self._volume.close()

    def check(self) -> None:
        """Raise `Refused` if the store can promise nothing any more."""
        self._volume.check()

    def peek(self, where: Place) -> Shelf | None:
        """Return a shelf if that costs nothing; None: ask `shelf`."""
        if where.tenant not in self._tenants:
            return Shelf()
        with self._guard:
            return self._remembered.get(where)

    def shelf(self, where: Place) -> Shelf:
        """Return what is stored."""
        with self._changing(where) as shelf:
            return shelf

    def page(self, tenant: str, workload: str, after: str, versions: bool) -> Page:
        """Return a part of the list: by tenant, then workload; `after` is a page's `more`."""
        items: list[Version] = []
        begun, count, last = self._clock.monotonic(), 0, ""
        for where in self._places(tenant, workload, after):
            if count == PAGE or (count and self._clock.monotonic() - begun > PAGE_SECONDS):
                return Page(tuple(items), last)
            shelf = self.shelf(where)
            count, last = count + 1, f"{where.tenant}/{where.workload}"
            items += [
                told(where, one, shelf)
                for one in reversed(shelf.versions)
                if versions or one == shelf.current
            ]
        return Page(tuple(items))

    def incoming(self) -> Incoming:
        """Begin to receive an archive."""
        self._volume.check()
        with clear_errors():
            return self._volume.incoming()

    def save(
        self,
        where: Place,
        incoming: Incoming,
        *,
        entries: int,
        content: int,
        base: str,
        pod: str,
        keep: int,
        side_version: bool = False,
        clean: bool = False,
    ) -> Saved:
        """Store what a Pod saved: as current if it may take its place, else beside it.

        `side_version`: it may not, whatever it started from. `clean`: it started without the files
        of `base`. `incoming` is settled. When this returns, the bytes are durable and found again.
        """
        with self._changing(where) as shelf:
            current = shelf.current
            if current is not None and current.digest == incoming.digest:
                return saved(current, current=True, unchanged=True)
            replaces = not side_version and rules.may_replace(shelf, base, pod)
            kind: Kind = "save" if replaces else "side"
            stored = _same(shelf, incoming.digest, pod, kind)
            if stored is None:
                manifest = self._manifest(shelf, incoming, entries, content, base, pod, kind)
                manifest = replace(manifest, clean=clean)
                shelf, stored = self._shelves.place(where, incoming, manifest, shelf)
            if replaces:
                if (unread := rules.outlives(shelf, clean=clean)) is not None:
                    shelf = self._shelves.exempt(where, shelf, unread)
                shelf = self._shelves.point(where, stored, shelf)
            self._remember(where, self._pruned(where, shelf, keep))
            return saved(stored, current=replaces, unchanged=False)

    def put(
        self,
        where: Place,
        incoming: Incoming,
        *,
        entries: int,
        content: int,
        expect: str | None,
        keep: int,
        held: int | None,
    ) -> tuple[Version, bool]:
        """Make a settled file current, wherever it comes from; see `SnapshotClient.put`.

        `held` is what `holds` says of it: nothing is written, and False returned, if that is
        current still.
        """
        with self._changing(where) as shelf:
            current = shelf.current
            digest = current.digest if current is not None else ""
            if expect is not None and expect != digest:
                raise Refused(409, "changed", f"current is {digest or 'not there'} by now")
            if current is not None and current.seq == held:
                return told(where, current, shelf), False
            manifest = self._manifest(shelf, incoming, entries, content, digest, "", "import")
            shelf, stored = self._shelves.place(where, incoming, manifest, shelf)
            shelf = self._shelves.point(where, stored, shelf)
            self._remember(where, self._pruned(where, shelf, keep))
            return told(where, stored, shelf), True

    def promote(self, where: Place, seq: int, keep: int) -> tuple[Version, bool]:
        """Make the content of a version current, as a new one; False if it is current already."""
        held = self.holds(where, read_through(self.open_version(where, seq)).digest)
        with self._changing(where) as shelf:
            source = _found(shelf, seq)
            current = shelf.current
            if current is not None and current.seq == held:
                return told(where, current, shelf), False
            base = current.digest if current is not None else ""
            manifest = replace(
                source.manifest,
                base=base,
                ancestors=rules.lineage(shelf, base),
                created_at=self._now(),
                pod="",
                kind="restore",
                clean=False,
            )
            shelf, stored = self._shelves.place_again(where, source, manifest, shelf)
            shelf = self._shelves.point(where, stored, shelf)
            self._remember(where, self._pruned(where, shelf, keep))
            return told(where, stored, shelf), True

    def holds(self, where: Place, digest: str) -> int | None:
        """Return the number of the current version, if its bytes are read to have this digest."""
        current = self.shelf(where).current
        if current is None or current.digest != digest:
            return None
        try:
            return read_through(self.open_version(where, current.seq)).seq
        except Refused:
            return None  # damaged: whoever has the bytes may store them again

    def delete(self, where: Place, seq: int | None) -> None:
        """Remove one version that is not current, or everything."""
        with self._changing(where) as shelf:
            if seq is None:
                if not shelf.versions:
                    raise no_snapshot(where)
                self._shelves.forget(where)
                self._remember(where, Shelf())
                return
            gone = _found(shelf, seq)
            if gone == shelf.current:
                raise Refused(
                    409,
                    "current-version",
                    f"version {seq} is the current one: make another current, or delete all",
                )
            self._remember(where, self._shelves.drop(where, shelf, gone, for_good=True))

    def exempt(self, where: Place, digest: str) -> None:
        """Never prune the newest version of this content: something of it was left out."""
        with self._changing(where) as shelf:
            stored = shelf.newest(digest)
            if stored is not None and not stored.exempt:
                self._remember(where, self._shelves.exempt(where, shelf, stored))

    def open_version(self, where: Place, seq: int | None) -> tuple[int, Version]:
        """Open an archive to be read: the current one, or that of a version."""
        with self._changing(where) as shelf:
            stored = shelf.current if seq is None else _found(shelf, seq)
            if stored is None:
                raise no_snapshot(where)
            return self._shelves.open(where, stored), told(where, stored, shelf)

    def open_digest(self, where: Place, digest: str) -> tuple[int, Version]:
        """Open the archive of this content; `Refused` if it is not stored."""
        with self._changing(where) as shelf:
            stored = shelf.newest(digest)
            if stored is None:
                words = f"there is no version {digest} of {where.workload} of {where.tenant!a}"
                raise Refused(404, "no-such-version", words)
            return self._shelves.open(where, stored), told(where, stored, shelf)

    def require_intact(self, where: Place, digest: str) -> None:
        """Raise `Refused` if the archive of this content is damaged, or not stored any more."""
        read_through(self.open_digest(where, digest))

    @contextmanager
    def _changing(self, where: Place) -> Iterator[Shelf]:
        """Hold the tenant's lock. After an error the disk alone says how far it got."""
        with self._locks.of(where.tenant), clear_errors():
            self._volume.check()
            try:
                shelf = self.peek(where)
                if shelf is None:
                    shelf = self._shelves.load(where)
                    self._remember(where, shelf)
                yield shelf
            except Refused as refused:
                if refused.status >= 500:
                    self._forget(where)
                raise
            except BaseException:
                self._forget(where)
                raise

    def _remember(self, where: Place, shelf: Shelf) -> None:
        with self._guard:
            if shelf.versions:
                self._tenants.add(where.tenant)
            self._remembered[where] = shelf
            self._remembered.move_to_end(where)
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)

    def _forget(self, where: Place) -> None:
        with self._guard:
            self._tenants.add(where.tenant)  # perhaps by now
            self._remembered.pop(where, None)

    def _pruned(self, where: Place, shelf: Shelf, keep: int) -> Shelf:
        try:
            return self._shelves.drop(where, shelf, *rules.prunable(shelf, keep))
        except OSError as error:
            # What was asked for is done; the next change tries again.
            log.warning("old versions of %s cannot be removed: %s", where.workload, error)
            return self._shelves.load(where)

    def _manifest(
        self,
        shelf: Shelf,
        incoming: Incoming,
        entries: int,
        content: int,
        base: str,
        pod: str,
        kind: Kind,
    ) -> Manifest:
        return Manifest(
            digest=incoming.digest,
            size=incoming.size,
            entries=entries,
            content=content,
            base=base,
            ancestors=rules.lineage(shelf, base),
            created_at=self._now(),
            pod=pod,
            kind=kind,
        )

    def _now(self) -> str:
        return rfc3339(self._clock.now())

    def _places(self, tenant: str, workload: str, after: str) -> Iterator[Place]:
        with self._guard:
            tenants = sorted({tenant} & self._tenants if tenant else self._tenants)
        first = after.partition("/")[0]
        for one in tenants:
            if one < first:
                continue
            with clear_errors():
                workloads = self._shelves.workloads(one)
            for name in workloads:
                if workload in ("", name) and (not after or (one, name) > _after(after)):
                    yield Place(one, name)


def told(where: Place, stored: Stored, shelf: Shelf) -> Version:
    """Say what a version is."""
    current = stored == shelf.current
    manifest = stored.manifest
    return Version(
        tenant=where.tenant,
        workload=where.workload,
        path=places.shown(where, stored, current),
        seq=stored.seq,
        digest=stored.digest,
        size=manifest.size,
        entries=manifest.entries,
        content=manifest.content,
        created_at=manifest.created_at,
        base=manifest.base,
        kind=manifest.kind,
        pod=manifest.pod,
        current=current,
        exempt=stored.exempt,
    )


def saved(stored: Stored, *, current: bool, unchanged: bool) -> Saved:
    return Saved(
        digest=stored.digest,
        seq=stored.seq,
        size=stored.manifest.size,
        entries=stored.manifest.entries,
        current=current,
        unchanged=unchanged,
        conflict=not current,
    )


def no_snapshot(where: Place) -> Refused:
    words = f"nothing is stored of {where.workload} of {where.tenant!a}"
    return Refused(404, "no-snapshot", words)


def _same(shelf: Shelf, digest: str, pod: str, kind: Kind) -> Stored | None:
    """Return what an earlier try of the same save has stored, before something cut it off."""
    if not shelf.versions:
        return None
    last = shelf.versions[-1]
    same = (last.digest, last.manifest.pod, last.manifest.kind) == (digest, pod, kind)
    return last if same else None


def _found(shelf: Shelf, seq: int) -> Stored:
    found = shelf.find(seq)
    if found is None:
        raise Refused(404, "no-such-version", f"there is no version {seq}")
    return found


def _after(text: str) -> tuple[str, str]:
    tenant, _, workload = text.partition("/")
    return tenant, workload
