"""`meta.k8s.io/v1 Table`: objects as rows, which is what `kubectl get` prints.

Kind.columns + objects + now ─► columnDefinitions, rows of cells

Cells are computed by the server, ages included: built-in kinds bring a function per column, custom
ones a JSONPath and a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from boilerhouse.core.clock import parse_time
from boilerhouse.embedded.apiserver.kind import Body, Column, Kind
from boilerhouse.embedded.fields.jsonpath import compile_path, printed
from boilerhouse.platform.kube.status import BadRequest

Cell = Callable[[Body, datetime], Any]


def name_cell(body: Body, _now: datetime) -> str:
    return str(body["metadata"].get("name", ""))


def age_cell(body: Body, now: datetime) -> str:
    return age(body["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", format="name", description="Name of the object.", cell=name_cell)
AGE = Column("Age", type="date", description="Time since the object was created.", cell=age_cell)


def table(kind: Kind, objects: Iterable[Body], *, include: str = "Metadata", now: datetime) -> Body:
    """Render objects as a Table. `include` says what comes with a row: Metadata, Object or None."""
    shape = _SHAPES.get(include)
    if shape is None:
        raise BadRequest(f'unrecognized includeObject value: "{include}"')
    columns = _columns(kind.columns)
    cells = tuple(_cell(column) for column in columns)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in columns
        ],
        "rows": [
            {"cells": [cell(body, now) for cell in cells], "object": shape(body)}
            for body in objects
        ],
    }


_SHAPES: dict[str, Callable[[Body], Body | None]] = {
    "": lambda body: _metadata(body),
    "Metadata": lambda body: _metadata(body),
    "Object": lambda body: body,
    "None": lambda _: None,
}


def _metadata(body: Body) -> Body:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }


@lru_cache(maxsize=256)
def _columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Put the name first, unless the kind has its own place for it; without columns, show age."""
    if any(column.format == "name" for column in columns):
        return columns
    return (NAME, *(columns or (AGE,)))


@lru_cache(maxsize=1024)
def _cell(column: Column) -> Cell:
    if column.cell is not None:
        return column.cell
    path = compile_path(column.path)
    convert: Callable[[Any, datetime], Any] = _CONVERTERS.get(column.type, _text)

    def cell(body: Body, now: datetime) -> Any:
        value = path.first(body)
        return None if value is None else convert(value, now)

    return cell


def _text(value: Any, _now: datetime) -> str:
    return printed([value])


def _integer(value: Any, _now: datetime) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, _now: datetime) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str:
    return age(value, now)


_CONVERTERS: dict[str, Callable[[Any, datetime], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def age(moment: Any, now: datetime) -> str:
    """Say how long ago a timestamp was."""
    if not moment:
        return "<unknown>"
    try:
        then = parse_time(moment)
    except (ValueError, TypeError):
        return "<invalid>"
    return duration(now - then)


def duration(span: timedelta) -> str:
    """Write a duration as kubectl does: two units while it is short, one when it is long."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, unit: str, small: int, lesser: str) -> str:
    return f"{large}{unit}{small}{lesser}" if small else f"{large}{unit}"
