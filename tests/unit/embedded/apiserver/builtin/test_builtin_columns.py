"""`kubectl get` of built-in kinds prints what a real server made it print."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.apiserver.request.table import table
from boilerhouse.embedded.apiserver.verbs import preparing
from tests.unit.embedded.apiserver.builtin.builtin_rows import CELLS, ROWS, Row, running, status

KINDS = {(kind.api_version, kind.kind): kind for kind in builtin.kinds()}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMES = {"Age", "Last Seen", "First Seen", "Created At"}


def stored(row: Row) -> Body:
    body = copy.deepcopy(row.body)
    kind = KINDS[body["apiVersion"], body["kind"]]
    preparing.prepare_new(kind, body, "2026-01-01T11:00:00Z")
    preparing.default(kind, body)
    if row.status is not None:
        changed = {**copy.deepcopy(body), "status": copy.deepcopy(row.status)}
        body = preparing.prepare_change(kind, changed, body, "status")
    return body


def cells(body: Body) -> dict[str, Any]:
    made = table(KINDS[body["apiVersion"], body["kind"]], [body], now=NOW)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_recorded(row: Row) -> None:
    """The cells are the real server's, in its order; ages apart."""
    found = {name: cell for name, cell in cells(stored(row)).items() if name not in TIMES}
    assert list(found.items()) == list(CELLS[row.name].items())


POD = Row("", ROWS[0].body)


def test_terminating() -> None:
    """A Pod that is being deleted is Terminating, unless it is done already."""
    body = stored(POD._replace(status=status(running())))
    body["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:00Z"
    assert cells(body)["Status"] == "Terminating"
    body["status"]["reason"] = "NodeLost"
    assert cells(body)["Status"] == "Unknown"
    body["status"] = {"phase": "Succeeded"}
    assert cells(body)["Status"] == "Succeeded"


def test_last_restart() -> None:
    """Restarts say when the last one was."""
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:55:00Z"}}
    body = stored(POD._replace(status=status({**running(restarts=2), "lastState": ended})))
    assert cells(body)["Restarts"] == "2 (5m ago)"


def test_ages() -> None:
    """Ages are computed by the server."""
    assert cells(stored(POD))["Age"] == "60m"
    event = next(row for row in ROWS if row.name == "event: reported")
    found = cells(stored(event))
    assert (found["Last Seen"], found["First Seen"]) == ("12h", "12h")
    quiet = cells(stored(next(row for row in ROWS if row.name == "event")))
    assert quiet["Last Seen"] == "<unknown>"


def test_deleted_claim() -> None:
    """A claim that is being deleted says so."""
    body = stored(next(row for row in ROWS if row.name == "claim: pending"))
    body["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:00Z"
    assert cells(body)["Status"] == "Terminating"


@pytest.mark.parametrize("kind", builtin.kinds(), ids=lambda kind: kind.plural)
def test_bare_objects_have_rows(kind: Any) -> None:
    """A row can be made of an object with nothing but metadata."""
    bare = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    row = table(kind, [bare], now=NOW)["rows"][0]
    assert "x" in row["cells"]
