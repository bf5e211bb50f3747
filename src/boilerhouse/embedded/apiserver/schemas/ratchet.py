"""What an update leaves unchanged is not held against it.

A CRD may become stricter while objects from before are stored. An update of such an object is
judged only by what it changes: an error at a place whose value, or whose parent's, equals the old
one is dropped. "Equals" needs to know what the old value of an item *is*: fields and map entries
correlate by key, items of map lists by their keys, items of other lists not at all (the list counts
as one).
"""

from __future__ import annotations

from typing import Any

from boilerhouse.embedded.apiserver.schemas.node import Node

_TYPE_META = ("apiVersion", "kind")


def unchanged(root: Node, new: Any, old: Any, path: list[Any]) -> bool:
    """Tell whether `path` leads through (or to) a value that equals its correlated old one."""
    node: Node | None = root
    for depth in range(len(path) + 1):
        if node is None:
            return False
        if same(node, new, old):
            return True
        if depth == len(path):
            return False
        part = path[depth]
        if depth == 0 and part in _TYPE_META:
            return False  # both sides were converted to the same version
        found = _step(node, new, old, part)
        if found is None:
            return False
        node, new, old = found
    return False


def same(node: Node, new: Any, old: Any) -> bool:
    """Compare by the schema: order in a map list does not matter, unknown fields never compare."""
    if new is None or old is None:
        return new is old
    if new.__class__ is not old.__class__:
        return False
    if new.__class__ is dict:
        if len(new) != len(old):
            return False
        for key, value in new.items():
            child = node.props.get(key) or node.additional
            if child is None or key not in old or not same(child, value, old[key]):
                return False
        return True
    if new.__class__ is list and node.list_type == "map" and node.items is not None:
        if len(new) != len(old):
            return False
        before = keyed(node, old)
        for item in new:
            match = before.get(key_of(node, item))
            if match is None or not same(node.items, item, match):
                return False
        return True
    return bool(new == old)


def _step(node: Node, new: Any, old: Any, part: Any) -> tuple[Node, Any, Any] | None:
    if part.__class__ is int:
        if node.list_type != "map" or node.items is None:
            return None
        if new.__class__ is not list or old.__class__ is not list or part >= len(new):
            return None
        match = keyed(node, old).get(key_of(node, new[part]))
        return None if match is None else (node.items, new[part], match)
    if new.__class__ is not dict or old.__class__ is not dict or part not in new or part not in old:
        return None
    child = node.props.get(part) or node.additional
    return None if child is None else (child, new[part], old[part])


def keyed(node: Node, items: Any) -> dict[Any, Any]:
    """Return the items of a map list by key; the first wins."""
    found: dict[Any, Any] = {}
    for item in items or ():
        key = key_of(node, item)
        if key is not None:
            found.setdefault(key, item)
    return found


def key_of(node: Node, item: Any) -> Any:
    """Return the key of an item of a map list, or None when it has none."""
    if item.__class__ is not dict:
        return None
    values = tuple(item.get(name) for name in node.list_keys)
    if any(value is None or value.__class__ in (dict, list) for value in values):
        return None
    return tuple((value.__class__, value) for value in values)
