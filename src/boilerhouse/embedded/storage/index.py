"""Objects of every resource in memory, found by key and listed in the order of their paths.

The store keeps two: the committed objects that readers see, and the head that writes are decided
on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable

from boilerhouse.embedded.storage.change import Key, Stored


def place(key: Key) -> tuple[str, str]:
    """Return what objects of a resource are ordered by: `namespace/name`, as a real server's keys.

    Not plain (namespace, name): "a-b/x" comes before "a/x", since "-" comes before "/".
    """
    return (f"{key.namespace}/", key.name)


class Index:
    def __init__(self, objects: Iterable[Stored] = ()) -> None:
        self._tables: defaultdict[str, _Table] = defaultdict(_Table)
        for stored in objects:
            self._tables[stored.key.resource].objects[stored.key] = stored
        for table in self._tables.values():
            table.order = sorted((*place(key), key) for key in table.objects)

    def get(self, key: Key) -> Stored | None:
        table = self._tables.get(key.resource)
        return None if table is None else table.objects.get(key)

    def set(self, key: Key, stored: Stored | None) -> None:
        """Store the object under `key`, or take it away."""
        self._tables[key.resource].set(key, stored)

    def scan(self, resource: str, namespace: str = "") -> list[Stored]:
        """List a resource in the order of `place`; "" means every namespace."""
        table = self._tables.get(resource)
        return [] if table is None else table.scan(namespace)


class _Table:
    __slots__ = ("objects", "order")

    def __init__(self) -> None:
        self.objects: dict[Key, Stored] = {}
        self.order: list[tuple[str, str, Key]] = []  # the place of each, which no two share

    def set(self, key: Key, stored: Stored | None) -> None:
        if stored is not None:
            if key not in self.objects:
                insort(self.order, (*place(key), key))
            self.objects[key] = stored
        elif self.objects.pop(key, None) is not None:
            del self.order[bisect_left(self.order, place(key))]

    def scan(self, namespace: str) -> list[Stored]:
        order = self.order
        if namespace:
            # "0" is the character behind "/", so that pair is the first behind the namespace.
            start = bisect_left(order, (f"{namespace}/", ""))
            order = order[start : bisect_left(order, (f"{namespace}0", ""), start)]
        objects = self.objects
        return [objects[key] for _, _, key in order]
