"""What the worker is told, as one argument on its command line."""

from __future__ import annotations

import marshal


class Job:
    """A job: `fingerprint`, `pack` or `unpack`. Ids and limits as in model.py."""

    __slots__ = ("inside", "level", "limits", "operation", "outside", "overlays", "parent")

    def __init__(
        self,
        operation: str,
        parent: int,
        overlays: list[tuple[bytes, bytes]],
        outside: tuple[int, int] | None = None,
        inside: tuple[int, int] = (0, 0),
        level: int = 1,
        limits: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.operation = operation
        self.parent = parent
        self.overlays = overlays  # path in the archive, directory here
        self.outside = outside
        self.inside = inside
        self.level = level
        self.limits = limits  # entries, content, name

    def encode(self) -> str:
        """Return it as text; only the same Python reads that, which is what runs the worker."""
        return marshal.dumps([getattr(self, name) for name in self.__slots__]).hex()

    @classmethod
    def decode(cls, text: str) -> Job:
        values = marshal.loads(bytes.fromhex(text))  # noqa: S302  our own parent wrote it
        return cls(**dict(zip(cls.__slots__, values, strict=True)))
