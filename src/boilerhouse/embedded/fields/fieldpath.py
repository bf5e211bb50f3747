"""Fields by a path of plain names, such as `.spec.replicas`: for selectors, scales and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Body = dict[str, Any]


def reader(path: str) -> Callable[[Body], Any]:
    """Return what reads a field; None where it, or what it is in, is absent."""
    names = path.removeprefix(".").split(".")

    def read(body: Body) -> Any:
        value: Any = body
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    return read


def text_reader(path: str) -> Callable[[Body], str]:
    """Return what reads a field as the text that field selectors compare."""
    read = reader(path)

    def text(body: Body) -> str:
        value = read(body)
        if isinstance(value, bool):
            return str(value).lower()
        return "" if value is None else str(value)

    return text
