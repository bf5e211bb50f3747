"""The scale subresource: one small face (autoscaling/v1 Scale) for every kind that has replicas.

GET  object ──► Scale             PUT, PATCH  Scale ──► replicas ──► a change of the object
"""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.apiserver.kind import Body, Kind, ScalePaths
from boilerhouse.embedded.apiserver.policy.admission import Admission
from boilerhouse.embedded.apiserver.request.decoding import decode_object
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.options import write_options
from boilerhouse.embedded.apiserver.request.refusals import invalid, invalid_scale
from boilerhouse.embedded.apiserver.request.rendering import value_reply
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.store import Store, Stored
from boilerhouse.embedded.apiserver.verbs import objectmeta, preparing
from boilerhouse.embedded.apiserver.verbs.objects import (
    Verbs,
    check_version,
    decode,
    found,
    key_of,
    read_patch,
)
from boilerhouse.embedded.fields.fieldpath import reader
from boilerhouse.platform.kube.status import BadRequest, invalid_value
from boilerhouse.platform.kube.wire import Reply, Request

MAX_REPLICAS = 2**31 - 1


class Scales:
    def __init__(self, store: Store, clock: Clock, admission: Admission, verbs: Verbs) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission
        self._verbs = verbs

    async def read(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        stored = found(self._store.get(key_of(target)), target)
        return value_reply(_scale(target.kind, stored.body), rendering)

    async def update(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        sent = decode_object(request, target.kind).body
        return await self._change(target, request, rendering, self._head(target), sent)

    async def patch(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        change = read_patch(target.kind, request)
        stored = self._head(target)
        sent = change(_scale(target.kind, stored.body))
        return await self._change(target, request, rendering, stored, sent)

    def _head(self, target: Target) -> Stored:
        return found(self._store.head(key_of(target)), target)

    async def _change(
        self, target: Target, request: Request, rendering: Rendering, stored: Stored, sent: Body
    ) -> Reply:
        kind = target.kind
        options = write_options(request, "UpdateOptions")
        if sent.get("kind", "Scale") != "Scale":
            raise BadRequest(f'expected a Scale, got "{sent["kind"]}"')
        metadata = sent.get("metadata") or {}
        if not isinstance(metadata, dict) or metadata.get("name", target.name) != target.name:
            raise BadRequest(
                f"the name of the object does not match the name on the URL ({target.name})"
            )
        version = metadata.get("resourceVersion")
        if version:
            check_version(kind, stored, str(version))
        uid = metadata.get("uid")  # protobuf sends "" for none
        if uid and uid != stored.body["metadata"]["uid"]:
            check_version(kind, stored, "0")  # another object of the same name
        paths = _paths(kind)
        old = decode(stored.raw)
        body = decode(stored.raw)
        _write(body, paths.spec_replicas, _replicas(kind, target.name, sent))
        objectmeta.tidy(body["metadata"])
        body = preparing.prepare_change(kind, body, old, "")
        preparing.check_change(kind, body, old, "")
        self._admission.check_change(kind, stored.key, body, old)
        preparing.settle_generation(kind, body, old)
        result = await self._verbs.store_change(kind, stored, body, dry_run=options.dry_run)
        return value_reply(_scale(kind, result.body), rendering)


def _paths(kind: Kind) -> ScalePaths:
    assert kind.scale is not None, "routing lets no other kind through"
    return kind.scale


def _scale(kind: Kind, body: Body) -> Body:
    paths = _paths(kind)
    metadata = body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": reader(paths.status_replicas)(body) or 0}
    selector = reader(paths.label_selector)(body) if paths.label_selector else None
    if isinstance(selector, dict):
        selector = _selector_text(selector)
    if selector:
        status["selector"] = selector
    replicas = reader(paths.spec_replicas)(body)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Body) -> str:
    """Write a LabelSelector object as text, as built-in kinds show it."""
    terms = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for term in selector.get("matchExpressions", ()):
        key, operator = term["key"], term["operator"]
        values = ",".join(sorted(term.get("values", ())))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})",
                 "Exists": key, "DoesNotExist": f"!{key}"}  # fmt: skip
        terms.append(words[operator])
    return ",".join(terms)


def _replicas(kind: Kind, name: str, sent: Body) -> int:
    spec = sent.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else spec
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise BadRequest(f"spec.replicas: {msgspec.json.encode(replicas).decode()} is no integer")
    if not 0 <= replicas <= MAX_REPLICAS:
        if not kind.custom:
            why = "must be greater than or equal to 0"
            raise invalid_scale(name, [invalid_value("spec.replicas", replicas, why)])
        field, why = _paths(kind).spec_replicas, "should be a non-negative integer"
        raise invalid(kind, name, [invalid_value(field, replicas, why)])
    return replicas


def _write(body: Body, path: str, value: int) -> None:
    *parents, last = path.lstrip(".").split(".")
    for part in parents:
        body = body.setdefault(part, {})
    body[last] = value
