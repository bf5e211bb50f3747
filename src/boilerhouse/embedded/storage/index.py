"""Objects of every resource in memory, found by key and listed in the order of their paths.

The store keeps two: the committed objects that readers see, and the head that writes are decided
on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from boilerhouse.embedded.storage.change import Key, Stored

_Name = tuple[str, str]


def place(key: Key) -> _Name:
    """Return what objects of a resource are ordered by: `namespace/name`, as a real server's keys.

    Not plain (namespace, name): "a-b/x" comes before "a/x", since "-" comes before "/".
    """
    return (f"{key.namespace}/", key.name)


class Index:
    def __init__(self, objects: Iterable[Stored] = ()) -> None:
        self._tables: dict[str, _Table] = {}
        for stored in objects:
            self._table(stored.key.resource).objects[place(stored.key)] = stored
        for table in self._tables.values():
            table.order = sorted(table.objects)

    def get(self, key: Key) -> Stored | None:
        table = self._tables.get(key.resource)
        return None if table is None else table.objects.get(place(key))

    def set(self, key: Key, stored: Stored | None) -> None:
        """Store the object under `key`, or take it away."""
        self._table(key.resource).set(place(key), stored)

    def scan(self, resource: str, namespace: str = "") -> list[Stored]:
        """List a resource in the order of `place`; "" means every namespace."""
        table = self._tables.get(resource)
        return [] if table is None else table.scan(namespace)

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table


class _Table:
    __slots__ = ("objects", "order")

    def __init__(self) -> None:
        self.objects: dict[_Name, Stored] = {}
        self.order: list[_Name] = []

    def set(self, name: _Name, stored: Stored | None) -> None:
        if stored is not None:
            if name not in self.objects:
                insort(self.order, name)
            self.objects[name] = stored
        elif self.objects.pop(name, None) is not None:
            del self.order[bisect_left(self.order, name)]

    def scan(self, namespace: str) -> list[Stored]:
        names = self.order
        if namespace:
            # "0" is the character behind "/", so that pair is the first behind the namespace.
            start = bisect_left(names, (f"{namespace}/", ""))
            names = names[start : bisect_left(names, (f"{namespace}0", ""), start)]
        objects = self.objects
        return [objects[name] for name in names]
