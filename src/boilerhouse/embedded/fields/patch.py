"""The three ways to change part of an object: merge patch, JSON patch, strategic merge patch.

the stored body + patch ─► the body as it becomes ─► prune, default, validate

All are pure. A merge patch and a JSON patch copy what they change and nothing else: a field that is
left alone is the very object it was (`is`), so that whoever comes after need not look at it again,
and must not write to it. A list that is changed is copied whole. What a merge patch brings that is
new becomes part of the result, unless nulls are to be left out of it: the patch is given away.
Nothing else is shared with a patch, and a strategic merge patch copies everything.
A patch that cannot be read is 400; one that cannot be applied to this object is 422, as on a real
server (whose message says only that "the server rejected our request"; ours adds why).
Strategic merge has a file of its own (`strategic.py`) and is re-exported here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from boilerhouse.embedded.fields.strategic import MAX_DEPTH, Merging, copied, strategic
from boilerhouse.platform.kube.status import BadRequest, Invalid, TooLarge

__all__ = [
    "MAX_DEPTH",
    "Merging",
    "copied",
    "json_patch",
    "merge",
    "strategic",
]

Body = dict[str, Any]

MAX_OPERATIONS = 10_000
# What `copy` operations may add up to: each can double the document.
MAX_COPIED_BYTES = 3 * 1024 * 1024


def merge(body: Mapping[str, Any], patch: object, *, nulls: bool = True) -> Body:
    """Apply a JSON merge patch (RFC 7386); without `nulls` there is none of them in it.

    Beyond the RFC, and like the real server: nulls are dropped from objects inside arrays too,
    unless the array takes the place of an object.
    """
    if not isinstance(patch, dict):
        raise BadRequest(f"error decoding patch: expected an object, got {_json_type(patch)}")
    return _merged(body, patch, 0, nulls)


def _merged(before: Mapping[str, Any], patch: Mapping[str, Any], depth: int, nulls: bool) -> Body:
    if depth > MAX_DEPTH:
        raise BadRequest(f"error decoding patch: nested deeper than {MAX_DEPTH} levels")
    body = {**before, **patch}
    for key, value in patch.items():
        kind = value.__class__  # decoded JSON is of these very classes, and asking so is free
        if kind is str:
            continue  # as most are; what is no object, list or null is where it belongs
        if value is None:
            del body[key]
        elif kind is dict:
            found = before.get(key)
            if found.__class__ is dict:
                body[key] = _merged(found, value, depth + 1, nulls)
            elif nulls:
                body[key] = _merged({}, value, depth + 1, nulls)
        elif kind is list and nulls:
            replaces = before.get(key).__class__ is dict
            body[key] = (copied if replaces else _without_nulls)(value, depth + 1)
    return body


def _without_nulls(values: list[Any], depth: int) -> list[Any]:
    if depth > MAX_DEPTH:
        raise BadRequest(f"error decoding patch: nested deeper than {MAX_DEPTH} levels")
    result: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            result.append(_merged({}, value, depth + 1, nulls=True))
        elif isinstance(value, list):
            result.append(_without_nulls(value, depth + 1))
        else:
            result.append(value)
    return result


def json_patch(body: Mapping[str, Any], operations: object) -> Body:
    """Apply a JSON patch (RFC 6902), all operations or none.

    Where the real server is more lenient than the RFC, so is this: `replace` of an absent member
    adds it, `copy` of an absent member writes null, `test` for null holds for an absent member,
    negative indexes count from the end.
    """
    if operations is None:
        operations = []
    if not isinstance(operations, list):
        raise BadRequest(f"error decoding patch: expected an array, got {_json_type(operations)}")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    for operation in operations:
        if not isinstance(operation, dict):
            raise BadRequest(
                f"error decoding patch: an operation is an object, got {_json_type(operation)}"
            )
        for key in ("op", "path", "from"):
            if key in operation and operation[key].__class__ is not str:
                raise BadRequest(f"error decoding patch: {key!r} of an operation is a string")
    document = _Document(body)
    for number, operation in enumerate(operations):
        try:
            document.apply(operation)
        except _Inapplicable as problem:
            raise Invalid(
                "the server rejected our request due to an error in our request: "
                f"operation {number} ({operation.get('op', '')} {operation.get('path', '')}): "
                f"{problem}"
            ) from None
    root = document.root
    if not isinstance(root, dict):
        raise Invalid(
            "the server rejected our request due to an error in our request: "
            "the patch does not leave an object"
        )
    return root


class _Inapplicable(Exception):
    """An operation does not fit the document."""


class _Document:
    """A JSON document under change: what an operation writes to is copied before, once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root: Any = dict(root)
        # The containers that were copied. None of the others can have such an id: they belong to
        # the document as it was, which is there all the time.
        self._own = {id(self.root)}
        self._copied_bytes = 0

    def apply(self, operation: Mapping[str, Any]) -> None:
        if "path" not in operation:
            raise _Inapplicable("the operation has no path")
        path: str = operation["path"]
        # Operations can build what no request body could: a value is copied for its depth, too.
        depth = path.count("/")
        match operation.get("op"):
            case "add":
                self._add(path, copied(operation.get("value"), depth))
            case "replace":
                self._replace(path, copied(operation.get("value"), depth))
            case "remove":
                self._remove(path)
            case "test":
                if not _same(self._read(path), operation.get("value")):
                    raise _Inapplicable("the value is another")
            case "move":
                source = self._source(operation)
                value = self._read(source)
                self._remove(source)
                self._add(path, copied(value, depth))
            case "copy":
                value = copied(self._read(self._source(operation)), depth)
                self._copied_bytes += len(msgspec.json.encode(value))
                if self._copied_bytes > MAX_COPIED_BYTES:
                    raise TooLarge(
                        f"the copy operations of a JSON patch may add {MAX_COPIED_BYTES} bytes"
                    )
                self._add(path, value)
            case other:
                raise _Inapplicable(f"unknown operation {other!r}")

    @staticmethod
    def _source(operation: Mapping[str, Any]) -> str:
        source = operation.get("from")
        if not isinstance(source, str):
            raise _Inapplicable("the operation has no from")
        return source

    def _read(self, path: str) -> Any:
        if not path:
            return self.root
        container, key = self._locate(path, to_write=False)
        if isinstance(container, dict):
            return container.get(key)
        return container[_index(key, len(container))]

    def _add(self, path: str, value: Any) -> None:
        container, key = self._locate(path, to_write=True)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)

    def _replace(self, path: str, value: Any) -> None:
        if not path:
            self.root = value
            return
        container, key = self._locate(path, to_write=True)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container))] = value

    def _remove(self, path: str) -> None:
        container, key = self._locate(path, to_write=True)
        if isinstance(container, list):
            del container[_index(key, len(container))]
        elif key in container:
            del container[key]
        else:
            raise _Inapplicable("nothing is there to remove")

    def _locate(self, path: str, *, to_write: bool) -> tuple[dict[str, Any] | list[Any], str]:
        """Return what holds the last step of the path, and that step."""
        if not path.startswith("/"):
            raise _Inapplicable("the path has to start with a slash")
        *parents, last = path[1:].split("/")
        own = self._own
        if to_write and id(self.root) not in own:
            self.root = self._copied(self.root)
        here = self.root
        for part in parents:
            step: Any
            if here.__class__ is dict:
                step = _unescaped(part) if "~" in part else part
                below = here.get(step)
            elif here.__class__ is list:
                step = _index(part, len(here))
                below = here[step]
            else:
                break
            if to_write and id(below) not in own:
                below = here[step] = self._copied(below)
            here = below
        if here.__class__ is not dict and here.__class__ is not list:
            raise _Inapplicable("the path leads through something that is absent or has no fields")
        return here, _unescaped(last) if "~" in last else last

    def _copied(self, value: Any) -> Any:
        """Return a copy that may be written to; the value itself if it holds nothing."""
        if value.__class__ is dict:
            value = dict(value)
        elif value.__class__ is list:
            value = copied(value)
        else:
            return value
        self._own.add(id(value))
        return value


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


_INDEX = re.compile(r"-?[0-9]{1,9}")


def _index(text: str, size: int) -> int:
    if not _INDEX.fullmatch(text):
        raise _Inapplicable(f"{text!r} is no index of a list")
    index = int(text)
    if not -size <= index < size:
        raise _Inapplicable(f"index {text} is out of range")
    return index if index >= 0 else size + index


def _same(left: Any, right: Any) -> bool:
    """Compare as JSON: `1` is neither `true` nor `1.0`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(v, right[k]) for k, v in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
