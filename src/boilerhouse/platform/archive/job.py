"""What the worker is told: the first bytes on its standard input, before those it works on."""

from __future__ import annotations

import marshal

LENGTH = 4  # bytes that tell how many follow


class Job:
    """A job: `fingerprint`, `pack` or `unpack`. Ids and limits as in model.py."""

    __slots__ = ("deep", "inside", "limits", "operation", "outside", "overlays")

    def __init__(
        self,
        operation: str,
        overlays: list[tuple[bytes, bytes]],
        outside: tuple[int, int] | None = None,
        inside: tuple[int, int] = (0, 0),
        limits: tuple[int, int] = (0, 0),
        deep: bool = False,
    ) -> None:
        self.operation = operation
        self.overlays = overlays  # path in the archive, directory here
        self.outside = outside
        self.inside = inside
        self.deep = deep  # directories lie further below one another than DEEP of tally.py
        self.limits = limits  # entries, content

    def encode(self) -> bytes:
        """Return it with its length; only the same Python reads that, which runs the worker."""
        told = marshal.dumps([getattr(self, name) for name in self.__slots__])
        return len(told).to_bytes(LENGTH) + told

    @classmethod
    def decode(cls, told: bytes) -> Job:
        """Read it, without its length."""
        values = marshal.loads(told)  # noqa: S302  our own parent wrote it
        return cls(**dict(zip(cls.__slots__, values, strict=True)))
