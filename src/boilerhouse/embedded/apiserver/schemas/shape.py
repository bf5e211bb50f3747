"""Two checks that look at more than one value: unique list items, and embedded resources.

validate.Check ──► list_causes, embedded_causes

Their paths spell a map's entry `labels[app]`, where the value checks spell it `labels.app`; clients
see both forms from a real server.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.schemas.node import MISSING, NOTHING, Baseline, Node
from boilerhouse.platform.kube.status import Cause, duplicate, invalid_value, required

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def list_causes(node: Node, value: Any, path: str, baseline: Baseline = NOTHING) -> list[Cause]:
    """Return a Duplicate cause for each repeated item of a set list, or key of a map list."""
    causes: list[Cause] = []
    if node.lists_below:
        _lists(node, value, path, causes, baseline)
    return causes


def _lists(node: Node, value: Any, path: str, causes: list[Cause], baseline: Any = NOTHING) -> None:
    if value.__class__ is dict:
        if baseline.__class__ is not dict:
            baseline = NOTHING
        props, extra = node.props, node.additional
        for key in filter(node.listing.__contains__, value) if extra is None else value:
            child, item = props.get(key, extra), value[key]
            if child is None or not child.lists_below or item is baseline.get(key, MISSING):
                continue
            where = f"{path}[{key}]" if key not in props else f"{path}.{key}" if path else key
            _lists(child, item, where, causes, baseline.get(key))
    elif value.__class__ is list:
        if node.list_type == "set":
            _repeats(value, path, causes)
        elif node.list_type == "map":
            _map_list(node, value, path, causes)
        if node.items is not None and node.items.lists_below:
            for index, item in enumerate(value):
                _lists(node.items, item, f"{path}[{index}]", causes)


def _map_list(node: Node, value: list[Any], path: str, causes: list[Cause]) -> None:
    names = node.list_keys
    try:
        if len(names) == 1 and len({item[names[0]] for item in value}) == len(value):
            return  # most have one key, and values of it that differ
    except (KeyError, TypeError):
        pass  # an item is no object, has no key, or one that is no scalar
    for index, item in enumerate(value):
        if item is not None and item.__class__ is not dict:
            message = "must be an object for an array of list-type map"
            causes.append(invalid_value(f"{path}[{index}]", item, message))
            return
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    _repeats(keys, path, causes)


def _repeats(values: list[Any], path: str, causes: list[Cause]) -> None:
    """Report the second appearance of each repeated value, and no further ones."""
    baseline: dict[Any, int] = {}
    for index, value in enumerate(values):
        key = _hashable(value)
        baseline[key] = baseline.get(key, 0) + 1
        if baseline[key] == 2:
            causes.append(duplicate(f"{path}[{index}]", value))


def _hashable(value: Any) -> Any:
    if value.__class__ is dict or value.__class__ is list:
        return msgspec.json.encode(value, order="sorted")
    return (value.__class__, value)


def embedded_causes(node: Node, value: Any, path: str) -> list[Cause]:
    """Return what is wrong with apiVersion and kind of embedded resources below `node`."""
    causes: list[Cause] = []
    _embedded(node, value, path, causes)
    return causes


def _embedded(node: Node, value: Any, path: str, causes: list[Cause]) -> None:
    if value.__class__ is dict:
        if node.embedded:
            _type_meta(value, path, causes)
        for key, item in value.items():
            child = node.props.get(key)
            where = f"{path}.{key}" if path else key
            if child is None and node.additional is not None:
                child, where = node.additional, f"{path}[{key}]"
            if child is not None and (child.embedded or child.embeds_below):
                _embedded(child, item, where, causes)
    elif value.__class__ is list and node.items is not None:
        for index, item in enumerate(value):
            _embedded(node.items, item, f"{path}[{index}]", causes)


def _type_meta(value: dict[str, Any], path: str, causes: list[Cause]) -> None:
    for name in ("apiVersion", "kind"):
        where = f"{path}.{name}"
        if name not in value:
            causes.append(required(where))
            continue
        text = value[name]
        if not isinstance(text, str):
            causes.append(invalid_value(where, text, "must be a string"))
        elif not text:
            causes.append(invalid_value(where, text, "must not be empty"))
        elif name == "apiVersion" and text.count("/") > 1:
            causes.append(invalid_value(where, text, f"unexpected GroupVersion string: {text}"))
        elif name == "kind" and (len(text) > 63 or not _KIND.fullmatch(text.lower())):
            message = "may have mixed case, but must otherwise be a DNS label"
            causes.append(invalid_value(where, text, message))
