"""The OpenAPI document: what is really sent is in it, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from tests.controllers.operator_fixture import SPEC
from tests.unit.edge.api.conftest import Rest

METHODS = ("get", "put", "post", "delete", "patch", "head")
PROBLEM = "application/problem+json"


@pytest.fixture
async def document(rest: Rest) -> dict[str, Any]:
    found: dict[str, Any] = (await rest.http.get("/schema")).json()
    return found


def operation(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """Return the operation that serves a path."""
    for template, operations in document["paths"].items():
        pattern = re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in operations:
            found: dict[str, Any] = operations[method.lower()]
            return found
    raise AssertionError(f"{method} {path} is not documented")


def documented(document: dict[str, Any], answer: httpx2.Response) -> None:
    """Assert that an answer's status and media type are those of its operation."""
    request = answer.request
    responses = operation(document, request.method, request.url.path)["responses"]
    assert str(answer.status_code) in responses, (request.method, request.url, answer.status_code)
    response = responses[str(answer.status_code)]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    media = answer.headers["content-type"].partition(";")[0]
    assert media in {kind.partition(";")[0] for kind in response["content"]}, (request.url, media)
    if answer.status_code >= 400:
        required = document["components"]["schemas"]["Problem"]["required"]
        assert set(required) <= set(answer.json())


async def test_every_failure_is_a_problem(document: dict[str, Any]) -> None:
    """Each operation names its failures, each as problem+json; none has the framework's shape."""
    for path, operations in document["paths"].items():
        for method, found in operations.items():
            assert method in METHODS
            responses = found["responses"]
            assert "default" in responses
            if "/proxy" in path:
                continue
            assert {"400", "401", "403", "500", "503"} <= set(responses), (method, path)
            for code, response in responses.items():
                if code != "default" and int(code) >= 400:
                    assert response == {"$ref": f"#/components/responses/{code}"}
    for response in document["components"]["responses"].values():
        assert list(response["content"]) == [PROBLEM]


@pytest.mark.slow
async def test_answers_are_as_documented(rest: Rest, document: dict[str, Any]) -> None:
    """Of a day's work, with its mistakes: each status and each media type."""
    await rest.world.ready_workload()
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/tenants/alice/claim", {"workload": "web"}),
        ("POST", "/tenants/alice/claim", {"workload": "web"}),
        ("POST", "/tenants/alice/claim", {"workload": "none"}),
        ("POST", "/tenants/alice/claim", {}),
        ("POST", "/tenants/.alice/claim", {"workload": "web"}),
        ("GET", "/tenants", None),
        ("GET", "/tenants/alice", None),
        ("GET", "/instances", None),
        ("GET", "/instances/nobody", None),
        ("POST", "/instances/nobody/exec", {"command": ["ls"]}),
        ("POST", "/instances/nobody/exec", {}),
        ("GET", "/instances/nobody/logs", None),
        ("GET", "/workloads", None),
        ("GET", "/workloads/web", None),
        ("GET", "/workloads/none", None),
        ("PUT", "/workloads/new", {"spec": SPEC}),
        ("PUT", "/workloads/new", {"spec": SPEC}),
        ("PUT", "/workloads/new", {"spec": {}}),
        ("PUT", "/workloads/new", []),
        ("POST", "/workloads", {"name": "new", "spec": SPEC}),
        ("POST", "/workloads", {"name": "newer", "spec": SPEC}),
        ("DELETE", "/workloads/new", None),
        ("DELETE", "/workloads/none", None),
        ("PUT", "/secrets/s", {"stringData": {"a": "b"}}),
        ("PUT", "/secrets/s", {"stringData": {"a": "c"}}),
        ("PUT", "/secrets/s", {"data": {"a": "é"}}),
        ("GET", "/secrets/s", None),
        ("DELETE", "/secrets/s", None),
        ("GET", "/stats", None),
        ("GET", "/health", None),
        ("GET", "/why/claim/nobody", None),
        ("GET", "/why/pod/x", None),
        ("GET", "/snapshots", None),
        ("POST", "/tenants/alice/release", {"workload": "web"}),
        ("POST", "/tenants/nobody/release", {"workload": "web"}),
    ]
    seen = set()
    for method, path, body in asked:
        answer = await rest.http.request(method, f"/api/v1{path}", json=body)
        assert answer.status_code != 500, answer.text
        documented(document, answer)
        seen.add(answer.status_code)
    assert {200, 201, 400, 404, 409, 422, 503} <= seen
    for path in ("/schema", "/schema/openapi.json", "/schema/openapi.yaml", "/metrics"):
        documented(document, await rest.http.get(path))


async def test_a_command_may_be_answered_in_lines(rest: Rest, document: dict[str, Any]) -> None:
    """By the media type that was asked for."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    for accept in ("application/json", "application/x-ndjson"):
        answer = await rest.http.post(
            f"/api/v1/instances/{name}/exec",
            json={"command": ["echo", "hi"]},
            headers={"accept": accept},
        )
        assert answer.headers["content-type"] == accept
        documented(document, answer)


async def test_what_is_taken_is_narrower_than_a_string(document: dict[str, Any]) -> None:
    """Tenant ids and names have their rules, a spec its schema, and the schema is an object."""
    claim = operation(document, "POST", "/api/v1/tenants/alice/claim")
    (tenant,) = [one for one in claim["parameters"] if one["name"] == "tenant"]
    assert tenant["schema"]["maxLength"] == 128 and tenant["schema"]["pattern"]
    put = operation(document, "PUT", "/api/v1/workloads/web")
    taken = put["requestBody"]["content"]["application/json"]["schema"]
    assert "image" in taken["properties"]["spec"]["properties"]
    pool = operation(document, "POST", "/api/v1/pools")["requestBody"]["content"]
    spec = pool["application/json"]["schema"]["properties"]["spec"]
    assert "workloadRef" in spec["required"]
    shown = operation(document, "GET", "/schema")["responses"]["200"]["content"]
    assert [media["schema"]["type"] for media in shown.values()] == ["object"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/workloads", {"GET", "POST", "OPTIONS"}),
        ("/workloads/web", {"GET", "PUT", "DELETE", "OPTIONS"}),
        ("/tenants/a/claim", {"POST", "OPTIONS"}),
        ("/tenants/a/workloads/w/snapshots", {"GET", "PUT", "DELETE", "OPTIONS"}),
    ],
)
async def test_options_lists_every_method(rest: Rest, path: str, allowed: set[str]) -> None:
    """Of the path, not of one of its handlers."""
    answer = await rest.http.options(f"/api/v1{path}")
    assert answer.status_code == 204
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("immutable", [0, 1, "false", "no", None, []])
async def test_immutable_is_true_or_false(rest: Rest, immutable: object) -> None:
    """It cannot be taken back, so nothing else is read as one of them."""
    answer = await rest.http.put("/api/v1/configmaps/c", json={"immutable": immutable})
    assert (answer.status_code, "true or false" in answer.json()["error"]) == (400, True)
    assert (await rest.get("/configmaps/c")).status_code == 404
    answer = await rest.http.put("/api/v1/configmaps/c", json={"immutable": False})
    assert answer.status_code == 201
