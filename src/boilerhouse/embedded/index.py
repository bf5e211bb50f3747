"""Objects of every resource in memory, found by key and listed in (namespace, name) order.

The store keeps two: the committed objects that readers see, and the head that writes are decided
on.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from boilerhouse.embedded.change import Key, Stored

_Name = tuple[str, str]


class Index:
    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def get(self, key: Key) -> Stored | None:
        table = self._tables.get(key.resource)
        return None if table is None else table.objects.get((key.namespace, key.name))

    def set(self, key: Key, stored: Stored | None) -> None:
        """Store the object under `key`, or take it away."""
        table = self._tables.get(key.resource)
        if table is None:
            table = self._tables[key.resource] = _Table()
        table.set((key.namespace, key.name), stored)

    def scan(self, resource: str, namespace: str = "") -> list[Stored]:
        """List a resource in (namespace, name) order; "" means every namespace."""
        table = self._tables.get(resource)
        return [] if table is None else table.scan(namespace)


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
            # "\0" cannot be in a name, so (namespace + "\0", "") is the first pair behind it.
            start = bisect_left(names, (namespace, ""))
            names = names[start : bisect_left(names, (namespace + "\0", ""), start)]
        objects = self.objects
        return [objects[name] for name in names]
