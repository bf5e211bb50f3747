"""Tables: definitions, cells by type, ages, what comes with a row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.kind import Column, Kind
from boilerhouse.embedded.apiserver.request.table import age, duration, table
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from boilerhouse.platform.kube.status import BadRequest

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def kind(*columns: Column) -> Kind:
    return Kind(
        group="demo.dev",
        version="v1",
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=True,
        schema=Schema.compile({"type": "object"}),
        columns=columns,
        custom=True,
    )


BODY: dict[str, Any] = {
    "apiVersion": "demo.dev/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "n": 3,
        "f": 1.5,
        "on": True,
        "text": "t",
        "list": [1, "b"],
        "when": "2026-01-01T23:00:00Z",
    },
}


def cell(column: Column, body: dict[str, Any] = BODY) -> Any:
    return table(kind(column), [body], now=NOW)["rows"][0]["cells"][1]


@pytest.mark.parametrize(
    ("type_", "path", "expected"),
    [
        ("string", ".spec.text", "t"),
        ("string", ".spec.n", "3"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.list", '[1,"b"]'),
        ("string", ".spec.list[*]", "1"),
        ("string", ".spec.absent", None),
        ("integer", ".spec.n", 3),
        ("integer", ".spec.f", 1),
        ("integer", ".spec.text", None),
        ("integer", ".spec.on", None),
        ("number", ".spec.f", 1.5),
        ("number", ".spec.text", None),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.text", None),
        ("date", ".spec.when", "60m"),
        ("date", ".spec.text", "<invalid>"),
        ("date", ".spec.absent", None),
    ],
)
def test_cells(type_: str, path: str, expected: Any) -> None:
    """A cell has its column's type, or is null."""
    assert cell(Column("C", type=type_, path=path)) == expected


def test_definitions() -> None:
    """The name comes first; a column's priority and description are passed on."""
    made = table(kind(Column("C", description="d", priority=1, path=".x")), [], now=NOW)
    assert made["kind"] == "Table"
    assert made["rows"] == []
    name, column = made["columnDefinitions"]
    assert (name["name"], name["type"], name["format"]) == ("Name", "string", "name")
    assert column == {
        "name": "C",
        "type": "string",
        "format": "",
        "description": "d",
        "priority": 1,
    }


def test_without_columns() -> None:
    """A kind without columns shows name and age."""
    made = table(kind(), [BODY], now=NOW)
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Age"]
    assert made["rows"][0]["cells"] == ["a", "24h"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": BODY["metadata"],
            },
        ),
        ("Object", BODY),
        ("None", None),
    ],
)
def test_what_comes_with_a_row(include: str, expected: Any) -> None:
    """includeObject decides between metadata, the object and nothing."""
    assert table(kind(), [BODY], include=include, now=NOW)["rows"][0]["object"] == expected


def test_unknown_include() -> None:
    """Any other includeObject is a bad request."""
    with pytest.raises(BadRequest):
        table(kind(), [BODY], include="Everything", now=NOW)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"),
        (599, "9m59s"), (600, "10m"), (10799, "179m"), (10800, "3h"), (11100, "3h5m"),
        (28799, "7h59m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (176400, "2d1h"),
        (691199, "7d23h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"),
        (63158400, "2y1d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_durations(seconds: int, expected: str) -> None:
    """Durations are written as kubectl writes them."""
    assert duration(timedelta(seconds=seconds)) == expected


def test_age_of_nothing() -> None:
    """No timestamp is unknown, a bad one is invalid."""
    assert age(None, NOW) == "<unknown>"
    assert age("soon", NOW) == "<invalid>"
    assert age(5, NOW) == "<invalid>"
