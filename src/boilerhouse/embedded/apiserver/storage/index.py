"""Objects of every resource in memory, found by key and listed in the order of their paths.

The store keeps two: the committed objects that readers see, and the head that writes are decided
on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable

from boilerhouse.embedded.apiserver.storage.change import Key, Stored


def place(key: Key) -> tuple[str, str]:
    """Return what objects of a resource are ordered by: `namespace/name`, as a real server's keys.

    Not plain (namespace, name): "a-b/x" comes before "a/x", since "-" comes before "/".
    """
    return (f"{key.namespace}/", key.name)


class Index:
    def __init__(self, objects: Iterable[Stored] = ()) -> None:
        self._objects = {stored.key: stored for stored in objects}
        # Of each resource every object behind its place, which no two share.
        self._orders: defaultdict[str, list[tuple[str, str, Stored]]] = defaultdict(list)
        for key, stored in self._objects.items():
            self._orders[key.resource].append((*place(key), stored))
        for order in self._orders.values():
            order.sort()
        # Asked more often than anything else is: the dict itself answers.
        self.get: Callable[[Key], Stored | None] = self._objects.get

    def set(self, key: Key, stored: Stored | None) -> None:
        """Store the object under `key`, or take it away."""
        order, where = self._orders[key.resource], place(key)
        at, known = bisect_left(order, where), key in self._objects
        if stored is not None:
            order[at : at + known] = [(*where, stored)]
            self._objects[key] = stored
        elif known:
            del order[at], self._objects[key]

    def scan(self, resource: str, namespace: str = "") -> list[Stored]:
        """List a resource in the order of `place`; "" means every namespace."""
        order = self._orders.get(resource)
        if not order:
            return []
        if namespace:
            # "0" is the character behind "/", so that pair is the first behind the namespace.
            start = bisect_left(order, (f"{namespace}/", ""))
            order = order[start : bisect_left(order, (f"{namespace}0", ""), start)]
        return [stored for _, _, stored in order]
