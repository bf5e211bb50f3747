"""The OpenAPI document, with what the framework cannot know of our answers.

Litestar's document ─► completed() ─► /schema

Every failure is `application/problem+json` (errors.py), which no handler says of itself; some
handlers answer with more than one status; and what is accepted as a name or a spec is narrower
than the `str` and `dict` of their signatures.
"""

from __future__ import annotations

import copy
import re
from http import HTTPStatus
from typing import Any

from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin

from boilerhouse.core.names import TENANT_PATTERN, TENANT_RULE
from boilerhouse.core.patterns import DNS_SUBDOMAIN, re2
from boilerhouse.edge.api.errors import PROBLEM_JSON
from boilerhouse.edge.api.handlers.execs import NDJSON
from boilerhouse.edge.api.handlers.resources import KINDS
from boilerhouse.edge.api.paths import V1

Body = dict[str, Any]

_PROBLEM: Body = {
    "type": "object",
    "description": "Why a request was not met. `code` is for programs, `error` for people.",
    "required": ["error", "code", "type", "title", "status", "detail"],
    "properties": {
        "error": {"type": "string"},
        "code": {"type": "string", "examples": ["WorkloadNotFound"]},
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "details": {"description": "Whatever else there is to say, such as `errors` of a spec."},
    },
}
_REFUSALS = {
    400: "The request cannot be read, or a value is out of its range.",
    401: "A key or token is needed, or the one that was sent is not valid.",
    403: "The caller may not do this.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "It cannot be done as things are; `code` says why.",
    413: "The body is too large.",
    422: "The object is invalid; `details.errors` has everything that is wrong with it.",
    429: "Too much at a time; `Retry-After` says when to ask again.",
    500: "An error on our side.",
    502: "The Kubernetes API or an instance failed.",
    503: "Not now: starting, stopping, or the cluster or helper cannot be reached.",
    504: "What was asked for did not end in time.",
    507: "There is no room on the disk.",
}
_ALWAYS = (400, 401, 403, 500, 503)
_WITH_NAME = (404,)
_OF_WRITES = (408, 409, 413, 422, 429, 502, 504, 507)
_WAIT_AND_SEE = (429, 503)

# More than one kind of success: the end of an operation's path, and what else it answers with.
_ALSO = {
    ("post", r"/claim"): (200, 202),
    ("post", r"/release(/retry|/force)?"): (202,),
    ("put", r"/(workloads|pools|claims|triggers|secrets|configmaps)/\{name\}"): (201,),
    ("delete", r"/(workloads|pools|claims|triggers)/\{name\}"): (202,),
    ("put", r"/snapshots"): (200,),
    ("post", r"/restore"): (200,),
}
_NAME: Body = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": re2(DNS_SUBDOMAIN)}
_TENANT: Body = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "pattern": re2(TENANT_PATTERN),
    "description": TENANT_RULE,
}


def completed(document: Body) -> Body:
    """Return the framework's document with what is really sent and taken."""
    document = copy.deepcopy(document)
    components = document.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _PROBLEM
    components["responses"] = {str(code): _problem(code) for code in _REFUSALS}
    document["paths"] = {
        path: operations
        for path, operations in document["paths"].items()
        if path != "/schema/{path}"  # the framework's page for what is not there
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _answers(path, method, operation)
            for parameter in operation.get("parameters", ()):
                _narrow(parameter)
    for plural, kind in KINDS.items():
        spec = kind.custom.schema()["properties"]["spec"]
        of_kind = document["paths"]
        _take_spec(of_kind[f"{V1}/{plural}"]["post"], components["schemas"]["NewObject"], spec)
        one = of_kind[f"{V1}/{plural}/{{name}}"]["put"]
        _take_spec(one, components["schemas"]["Replacement"], spec)
    return document


def _answers(path: str, method: str, operation: Body) -> None:
    responses = operation["responses"]
    responses.pop("400", None)  # the framework's own shape, which is never sent
    success = next(iter(responses))
    if "/proxy" in path:
        words = "What the tenant's program answers, whatever its status; or a problem of ours."
        operation["responses"] = {"default": {"description": words, "content": {"*/*": {}}}}
        return
    for (verb, end), codes in _ALSO.items():
        if verb == method and re.search(end + r"\Z", path):
            for code in codes:
                words = HTTPStatus(code).description or HTTPStatus(code).phrase
                responses[str(code)] = {**responses[success], "description": words}
    if path.endswith("/exec"):
        responses[success]["content"][NDJSON] = {"schema": {"type": "string"}}
    if path.startswith("/schema") or "/why/" in path:
        for media in responses[success]["content"].values():
            media["schema"] = {"type": "object"}
    refusals = [*_ALWAYS]
    refusals += _WITH_NAME if "{" in path or "/images" in path else ()
    refusals += _OF_WRITES if method != "get" else ()
    for code in sorted(refusals):
        responses[str(code)] = {"$ref": f"#/components/responses/{code}"}
    # A client that knows none of these codes still knows the shape.
    responses["default"] = {
        "description": "Any other failure.",
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _problem(code: int) -> Body:
    problem: Body = {
        "description": _REFUSALS[code],
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if code in _WAIT_AND_SEE:
        words = "Seconds after which to ask again."
        problem["headers"] = {"Retry-After": {"description": words, "schema": {"type": "integer"}}}
    return problem


def _narrow(parameter: Body) -> None:
    if parameter["in"] != "path":
        return
    if parameter["name"] == "tenant":
        parameter["schema"] = _TENANT
    elif parameter["name"] in ("name", "workload"):
        parameter["schema"] = _NAME


def _take_spec(operation: Body, shared: Body, spec: Body) -> None:
    """Say what a spec of this kind may be, where the shared schema says `object`."""
    properties = {**shared["properties"], "spec": spec}
    taken = {**shared, "properties": properties}
    operation["requestBody"]["content"]["application/json"]["schema"] = taken


class CompletedJson(JsonRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: Body) -> bytes:
        """Render the completed document."""
        return super().render(request, completed(openapi_schema))


class CompletedYaml(YamlRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: Body) -> bytes:
        """Render the completed document."""
        return super().render(request, completed(openapi_schema))
