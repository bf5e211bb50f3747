"""Table output: what `kubectl get` prints."""

from __future__ import annotations

from tests.contract.driver import Api
from tests.contract.objects import config_map, gadget, pod, widget

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_columns_of_a_custom_resource(api: Api) -> None:
    """Name first, then the definition's columns; absent values are null."""
    (await api.create("widgets", widget("a", size=4, code="abc"))).ok()
    (await api.create("widgets", widget("b"))).ok()
    (await api.patch("widgets", "b", {"status": {"phase": "Ready"}}, "status")).ok()
    answer = await api.call("GET", api.path("widgets"), accept=TABLE)
    table = answer.ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Phase", "string", 0),
        ("Code", "string", 1),
        ("Age", "date", 0),
    ]
    rows = [row["cells"][:4] for row in table["rows"]]
    assert rows == [["a", 4, None, "abc"], ["b", 3, "Ready", None]]
    assert table["rows"][0]["cells"][4].endswith("s")
    assert int(table["metadata"]["resourceVersion"]) > 0


async def test_rows_carry_metadata_unless_told_otherwise(api: Api) -> None:
    """includeObject decides what comes with a row."""
    (await api.create("widgets", widget("a"))).ok()
    path = api.path("widgets", "a")

    async def row(**query: str) -> dict[str, object]:
        answer = await api.call("GET", path, accept=TABLE, query=query)
        found: dict[str, object] = answer.ok()["rows"][0]
        return found

    first = (await row())["object"]
    assert isinstance(first, dict)
    assert first["kind"] == "PartialObjectMetadata"
    assert first["metadata"]["name"] == "a"
    whole = (await row(includeObject="Object"))["object"]
    assert isinstance(whole, dict)
    assert whole["kind"] == "Widget"
    assert "object" not in await row(includeObject="None") or (
        (await row(includeObject="None"))["object"] is None
    )


async def test_kinds_without_columns(api: Api) -> None:
    """A definition without columns shows Name and Age."""
    (await api.create("gadgets", gadget(f"g-{api.namespace}"))).ok()
    table = (await api.call("GET", api.path("gadgets"), accept=TABLE)).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


async def test_pods(api: Api) -> None:
    """Pods show what everybody knows of `kubectl get pods`."""
    (await api.create("pods", pod("a"))).ok()
    table = (await api.call("GET", api.path("pods"), accept=TABLE)).ok()
    names = [c["name"] for c in table["columnDefinitions"] if c["priority"] == 0]
    assert names == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]


async def test_config_maps(api: Api) -> None:
    """ConfigMaps show how many keys they have."""
    (await api.create("configmaps", config_map("a", x="1", y="2"))).ok()
    table = (await api.call("GET", api.path("configmaps"), accept=TABLE)).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] in (["a", 2], ["a", "2"])


async def test_an_empty_table(api: Api) -> None:
    """No objects: columns and no rows."""
    table = (await api.call("GET", api.path("widgets"), accept=TABLE)).ok()
    assert table["rows"] == []
    assert table["columnDefinitions"]


async def test_the_first_form_that_is_known_wins(api: Api) -> None:
    """kubectl asks for tables in two versions and plain JSON; the first one served is used."""
    (await api.create("configmaps", config_map("a"))).ok()
    accept = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
    assert (await api.call("GET", api.path("configmaps"), accept=accept)).ok()["kind"] == "Table"
    protobuf = "application/vnd.kubernetes.protobuf,application/json"
    path = api.path("widgets")
    assert (await api.call("GET", path, accept=protobuf)).ok()["kind"] == "WidgetList"


async def test_a_table_of_an_error(api: Api) -> None:
    """An error is a Status, whatever form was asked for."""
    answer = await api.call("GET", api.path("widgets", "nothing"), accept=TABLE)
    answer.status(404, "NotFound")
