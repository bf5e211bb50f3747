"""Paths that a CRD writes about its own schema: a rule's `fieldPath`, a selectable field.

`.spec.replicas`, `.spec['a-map']['a key']` ──► field_path ──► `spec.replicas`, `spec[a key]`
"""

from __future__ import annotations

import re

from boilerhouse.embedded.apiserver.schemas.node import Node

_PART = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'",
    "\\": "\\",
}  # fmt: skip


def walk(path: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """Follow a path through a schema; return it as errors spell it, and the node it leads to.

    Raise ValueError when it leads nowhere.
    """
    shown, at = "", 0
    while at < len(path):
        match = _PART.match(path, at)
        if match is None:
            raise ValueError(f"expected [ or . but got: {path[at:]}")
        if match[2] is not None and not brackets:
            raise ValueError("array notation is not allowed")
        name = match[1] if match[2] is None else _ESCAPE.sub(_unescape, match[2])
        if node.props:
            if name not in node.props:
                raise ValueError("does not refer to a valid field")
            node = node.props[name]
            shown = f"{shown}.{name}" if shown else name
        elif node.additional is not None:
            node = node.additional
            shown = f"{shown}[{name}]"
        else:
            raise ValueError("does not refer to a valid field")
        at = match.end()
    return shown, node


def field_path(path: str, node: Node) -> str:
    """Return a rule's `fieldPath` as errors spell it; raise ValueError when it leads nowhere."""
    return walk(path, node)[0]


def _unescape(match: re.Match[str]) -> str:
    if match[1] not in _ESCAPES:
        raise ValueError(f"invalid escape char {match[0]}")
    return _ESCAPES[match[1]]
