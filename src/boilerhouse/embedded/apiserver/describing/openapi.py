"""OpenAPI v3: what kubectl validates with, explains from and computes its patches by.

Registry ──► /openapi/v3                       index: an address per group and version, with a hash
         └─► /openapi/v3/apis/GROUP/VERSION    document: paths, and each kind's schema
             /openapi/v2                       a document that describes nothing

The hash is in the address, so that a client may keep a document for ever. A document is rendered
when it is asked for and not kept: clients keep it, and memory has better uses.
kubectl looks into v2 for what v3 does not have, above all `kind: List`, and gives up without one.
What it does not find there it leaves to the server to judge: so an empty one is enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.describing.discovery import not_modified, verbs_of
from boilerhouse.embedded.apiserver.describing.openapi_meta import (
    API_VERSION,
    DELETE_OPTIONS,
    KIND,
    LIST_METADATA,
    OBJECT_METADATA,
    PATCH,
    SCALE,
    SHARED,
    STATUS,
    ref,
)
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.negotiation import accepted
from boilerhouse.platform.kube.status import NotAcceptable, NotFound
from boilerhouse.platform.kube.wire import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    YAML,
    Reply,
    Request,
)

_PREFIX = "#/components/schemas/"
_PLAIN_TYPES = (JSON, "application/*", "*/*", "")
_TITLE = "Boilerhouse: embedded Kubernetes API"
_V2 = {"swagger": "2.0", "info": {"title": _TITLE, "version": "v1"}, "paths": {}}
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Clients ask with an `@`, which is no media type, and would not take it for an answer.
_V2_ASKED = (_V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


class OpenApi:
    """Answers /openapi/v3. `definitions` are the schemas that built-in kinds refer to."""

    def __init__(self, registry: Registry, definitions: Mapping[str, Any]) -> None:
        self._registry = registry
        self._definitions = definitions
        self._hashes: dict[str, tuple[tuple[Kind, ...], str]] = {}

    def answer(self, request: Request) -> Reply | None:
        """Answer a path below /openapi; None for any other."""
        path = request.path.rstrip("/")
        if request.method not in ("GET", "HEAD") or not (path + "/").startswith("/openapi/"):
            return None
        if path == "/openapi/v2":
            return _version_2(request)
        if path != "/openapi/v3" and not path.startswith("/openapi/v3/"):
            raise NotFound(f"{path} is not served here: use /openapi/v3")
        if not any(
            media in _PLAIN_TYPES for media, _ in accepted(request.headers.get("accept", ""))
        ):
            raise NotAcceptable(f"only the following media types are accepted: {JSON}")
        groups = self._groups()
        if path == "/openapi/v3":
            return self._index(request, groups)
        name = path.removeprefix("/openapi/v3/")
        if name not in groups:
            raise NotFound("the server could not find the requested resource")
        return self._document(request, groups[name])

    def _groups(self) -> dict[str, tuple[Kind, ...]]:
        """Return the kinds of each document, by its name: `api/v1`, `apis/GROUP/VERSION`."""
        groups: dict[str, list[Kind]] = {}
        for kind in self._registry.all():
            groups.setdefault(_root(kind).removeprefix("/"), []).append(kind)
        return {name: tuple(kinds) for name, kinds in groups.items()}

    def _index(self, request: Request, groups: Mapping[str, tuple[Kind, ...]]) -> Reply:
        paths = {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hash(name, kinds)}"}
            for name, kinds in groups.items()
        }
        body = msgspec.json.encode({"paths": paths})
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        headers = {"content-type": JSON, "etag": tag, "cache-control": "no-cache, private"}
        return not_modified(request, Reply(200, body, headers))

    def _document(self, request: Request, kinds: tuple[Kind, ...]) -> Reply:
        body = msgspec.json.encode(document(kinds, self._definitions))
        digest = hashlib.sha256(body).hexdigest()
        # Only the address that names this very content may be kept for ever.
        fixed = request.param("hash") == digest
        headers = {
            "content-type": JSON,
            "etag": f'"{digest}"',
            "vary": "Accept",
            "cache-control": "public, immutable" if fixed else "no-cache, private",
        }
        return not_modified(request, Reply(200, body, headers))

    def _hash(self, name: str, kinds: tuple[Kind, ...]) -> str:
        known = self._hashes.get(name)
        # Kinds are values that are replaced, never changed: the same ones make the same document.
        if known is None or not _same(known[0], kinds):
            body = msgspec.json.encode(document(kinds, self._definitions))
            known = self._hashes[name] = (kinds, hashlib.sha256(body).hexdigest())
        return known[1]


def _version_2(request: Request) -> Reply:
    """Answer with the first accepted form: protobuf, which kubectl reads, or JSON."""
    for media, _ in accepted(request.headers.get("accept", "")):
        if media in _V2_ASKED:
            return Reply(200, _v2_protobuf(), {"content-type": _V2_PROTOBUF, "vary": "Accept"})
        if media in _PLAIN_TYPES:
            headers = {"content-type": JSON, "vary": "Accept"}
            return Reply(200, msgspec.json.encode(_V2), headers)
    raise NotAcceptable(f"only the following media types are accepted: {JSON}, {_V2_PROTOBUF}")


def _v2_protobuf() -> bytes:
    """Write `_V2` as openapi_v2.Document: swagger 1, info 2 (title 1, version 2), paths 8."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    info = field(1, _TITLE.encode()) + field(2, b"v1")
    return field(1, b"2.0") + field(2, info) + field(8, b"")


def document(kinds: tuple[Kind, ...], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the kinds of one group and version."""
    schemas: dict[str, Any] = dict(SHARED)
    paths: dict[str, Any] = {}
    for kind in kinds:
        schemas[component(kind)] = _object_schema(kind)
        schemas[component(kind) + "List"] = _list_schema(kind)
        paths |= _paths(kind)
    _add_referenced(schemas, definitions)
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": kinds[0].version},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def component(kind: Kind) -> str:
    """Name a kind's schema as real servers do: reversed group, version, kind."""
    if kind.custom:
        return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    group = kind.group.split(".")[0] or "core"
    return f"io.k8s.api.{group}.{kind.version}.{kind.kind}"


def _object_schema(kind: Kind) -> dict[str, Any]:
    tree = dict(kind.schema.openapi)
    known = dict(tree.get("properties") or {})
    known |= {"apiVersion": API_VERSION, "kind": KIND, "metadata": OBJECT_METADATA}
    return tree | {
        "type": "object",
        "properties": dict(sorted(known.items())),
        "x-kubernetes-group-version-kind": [_type(kind)],
    }


def _list_schema(kind: Kind) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"A list of {kind.plural}.",
        "required": ["items"],
        "properties": {
            "apiVersion": API_VERSION,
            "items": {"type": "array", "items": ref(component(kind))},
            "kind": KIND,
            "metadata": LIST_METADATA,
        },
        "x-kubernetes-group-version-kind": [_type(kind) | {"kind": kind.list_kind}],
    }


def _add_referenced(schemas: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Bring in every definition that is referred to, and what those refer to."""
    waiting = list(schemas.values())
    while waiting:
        for name in _references(waiting.pop()):
            if name not in schemas:
                schemas[name] = definitions[name]
                waiting.append(definitions[name])


def _references(tree: Any) -> Iterator[str]:
    if isinstance(tree, Mapping):
        target = tree.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_PREFIX)
        for value in tree.values():
            yield from _references(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _references(value)


def _same(one: tuple[Kind, ...], other: tuple[Kind, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _type(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


# Query parameters by what a request does. kubectl looks for fieldValidation on PATCH to learn that
# the server checks fields; it reads parameters where they stand, so none is a reference.
_SEEN = {
    "labelSelector": "string",
    "fieldSelector": "string",
    "limit": "integer",
    "continue": "string",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "timeoutSeconds": "integer",
    "watch": "boolean",
    "allowWatchBookmarks": "boolean",
    "sendInitialEvents": "boolean",
}
_WRITTEN = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETED = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "propagationPolicy": "string",
}
_PARAMETERS = {"list": _SEEN, "post": _WRITTEN, "put": _WRITTEN, "patch": _WRITTEN}
_PARAMETERS |= {"delete": _DELETED, "deletecollection": _DELETED | _SEEN}
_METHOD = {"list": "get", "deletecollection": "delete"}


def _paths(kind: Kind) -> dict[str, Any]:
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{_root(kind)}{inside}/{kind.plural}"
    one = f"{collection}/{{name}}"
    own = component(kind)
    many = [verb for verb in verbs_of(kind) if verb == "deletecollection"]
    paths = {
        collection: _path(kind, collection, ("list", "post", *many), own),
        one: _path(kind, one, ("get", "put", "patch", "delete"), own),
    }
    if kind.namespaced:
        everywhere = f"{_root(kind)}/{kind.plural}"
        paths[everywhere] = _path(kind, everywhere, ("list",), own)
    for name, body in (("status", own if kind.status else ""), ("scale", SCALE)):
        if (name == "status" and kind.status) or (name == "scale" and kind.scale):
            paths[f"{one}/{name}"] = _path(kind, f"{one}/{name}", ("get", "put", "patch"), body)
    return paths


def _path(kind: Kind, path: str, actions: tuple[str, ...], body: str) -> dict[str, Any]:
    named = [name for name in ("namespace", "name") if f"{{{name}}}" in path]
    item: dict[str, Any] = {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in named
        ]
    }
    for action in actions:
        item[_METHOD.get(action, action)] = _operation(kind, path, action, body)
    return item


def _operation(kind: Kind, path: str, action: str, body: str) -> dict[str, Any]:
    answer = {"list": body + "List", "delete": STATUS, "deletecollection": STATUS}.get(action, body)
    exchanged = _type(kind) if body != SCALE else _SCALE_TYPE
    operation: dict[str, Any] = {
        "operationId": f"{action}:{path}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": type_}}
            for name, type_ in _PARAMETERS.get(action, {}).items()
        ],
        "responses": {
            "200": {
                "description": "OK",
                "content": {m: {"schema": ref(answer)} for m in (JSON, YAML)},
            }
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": exchanged,
    }
    content: dict[str, Any] = {}
    if action in ("post", "put"):
        content = {media: {"schema": ref(body)} for media in (JSON, YAML)}
    elif action == "patch":
        media = [
            JSON_PATCH,
            MERGE_PATCH,
            *([STRATEGIC_PATCH] if kind.merge_keys is not None else []),
        ]
        content = {m: {"schema": ref(PATCH)} for m in media}
    elif action in ("delete", "deletecollection"):
        content = {JSON: {"schema": ref(DELETE_OPTIONS)}}
    if content:
        operation["requestBody"] = {"content": content, "required": action != "delete"}
    return operation


_SCALE_TYPE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
