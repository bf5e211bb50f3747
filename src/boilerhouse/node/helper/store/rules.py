"""Which version may follow which, and which may go: pure.

Shelf, base, Pod ─► may_replace, lineage, known, prunable
"""

from __future__ import annotations

from boilerhouse.node.helper.store.manifest import Shelf, Stored

ANCESTORS = 50  # remembered by each version


def may_replace(shelf: Shelf, base: str, pod: str) -> bool:
    """Whether what a Pod saves may take the place of current, or must stand beside it.

    It may if nothing gets lost by it: current is where the Pod started from, or is the Pod's own
    earlier save, or is older than where it started (a volume put back from a backup), or is not
    there. Anything else came from elsewhere meanwhile, and nobody here can tell which is right.
    """
    current = shelf.current
    return (
        current is None
        or current.digest == base
        or (pod != "" and current.manifest.pod == pod)
        or current.digest in ancestors(shelf, base)
    )


def outlives(shelf: Shelf, *, clean: bool) -> Stored | None:
    """Return the current version if it must be exempt from pruning once it is replaced.

    What a clean start replaces was not read by it: later saves must not push it out unnoticed. Not
    so if it was saved by a clean start itself: who always starts clean would fill the volume. One
    exempt copy of a content is enough.
    """
    current = shelf.current
    if current is None or not clean or current.manifest.clean:
        return None
    held = any(one.exempt and one.digest == current.digest for one in shelf.versions)
    return None if held else current


def ancestors(shelf: Shelf, digest: str) -> tuple[str, ...]:
    """Return what a version came from; nothing if it is not stored any more."""
    found = shelf.newest(digest) if digest else None
    return () if found is None else found.manifest.ancestors


def lineage(shelf: Shelf, base: str) -> tuple[str, ...]:
    """Return the ancestors of a version that is made from `base`, nearest first."""
    if not base:
        return ()
    return tuple(dict.fromkeys((base, *ancestors(shelf, base))))[:ANCESTORS]


def known(shelf: Shelf, base: str, pod: str) -> Stored | None:
    """Return the version that need not be written again if the Pod's data equal it.

    The Pod's own last save, side version or not; else what it started from, if that is current.
    """
    if pod:
        for one in reversed(shelf.versions):
            if one.manifest.pod == pod:
                return one
    current = shelf.current
    return current if current is not None and current.digest == base else None


def prunable(shelf: Shelf, keep: int) -> tuple[Stored, ...]:
    """Return the versions that are too many, oldest first.

    Side versions are counted apart: saves that went well must not push out the only copy of what
    went wrong. Contents are counted as well as versions: going to and fro between two must not push
    out a third. Current, and what is exempt, stays however old.
    """
    sides = [one for one in shelf.versions if one.manifest.kind == "side"]
    line = [one for one in shelf.versions if one.manifest.kind != "side"]
    kept: set[int] = set()
    for group in (line, sides):
        newest = {one.digest: one.seq for one in group}
        kept.update(one.seq for one in group[-keep:])
        kept.update(sorted(newest.values())[-keep:])
    return tuple(
        one
        for one in shelf.versions
        if one.seq not in kept and not one.exempt and one != shelf.current
    )
