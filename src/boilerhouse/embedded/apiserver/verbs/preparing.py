"""From what a client sent to what may be stored: prune, default, carry over, validate.

body ──► prune ──► hooks, defaults ──► metadata ──► validate ──► the object to store

The steps and their order are the same for every kind and every way to write (create, PUT, any
patch, status, scale), so that nothing can be smuggled in by another door. Works in place on a body
that is the caller's own; raises Invalid or BadRequest with every reason at once.

Most writes change little of an object: a Pod's labels, a Claim's status. What is the very object
that is stored (patches leave it so, `share` makes it so) went through all of this when it was
stored. It is neither looked at again nor written to: it is the `baseline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from boilerhouse.embedded.apiserver.cel.rules import unchecked
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.refusals import invalid, undecodable
from boilerhouse.embedded.apiserver.schemas.schema import NOTHING, Baseline
from boilerhouse.embedded.apiserver.verbs import objectmeta
from boilerhouse.platform.kube.status import Cause

Part = Literal["", "status"]

_canonical = msgspec.json.Encoder(order="deterministic").encode
_encode = msgspec.json.Encoder().encode
_ALWAYS_LOOKED_AT = frozenset({"apiVersion", "kind", "metadata"})
_NOT_ASKED_FOR = _ALWAYS_LOOKED_AT | {"status"}


def share(body: Body, old: Body) -> Body:
    """Let the body have the fields of `old` that are the same in both, and return it.

    To the byte: Python's 1 == True is not JSON's.
    """
    for name, value in body.items():
        if name in old and name not in _ALWAYS_LOOKED_AT and _encode(value) == _encode(old[name]):
            body[name] = old[name]
    return body


def prepare_new(kind: Kind, body: Body, now: str) -> None:
    """Make the body what a new object is before its defaults: born, without a status."""
    metadata = objectmeta.metadata_of(body)
    objectmeta.tidy(metadata)
    objectmeta.born(kind, metadata, now)
    if kind.custom and kind.status:
        body.pop("status", None)
    kind.hooks.on_create(body)


def check_new(kind: Kind, body: Body) -> None:
    """Refuse a new object with everything that is wrong with it."""
    metadata = body["metadata"]
    causes = _decoded(kind, objectmeta.check_new(kind, metadata))
    causes += _causes(kind, body, None)
    _refuse(kind, metadata.get("name", ""), causes)


def prepare_change(
    kind: Kind, body: Body, old: Body, part: Part, baseline: Baseline = NOTHING
) -> Body:
    """Make a sent body what the object becomes. `old` is written to unless it is the baseline."""
    body = assemble(kind, body, old, part)
    default(kind, body, baseline)
    return body


def assemble(kind: Kind, body: Body, old: Body, part: Part) -> Body:
    """Put together what a change is about and what it may not touch, before defaults.

    A write to the status subresource changes the status alone (and, for built-in kinds, what of
    metadata people may change); any other write leaves the status as it is. What is left is shared
    with `old`.
    """
    if part == "status":
        body = _only_status(kind, body, old)
    elif kind.status:
        body.pop("status", None)
        if "status" in old:
            body["status"] = old["status"]
    metadata = objectmeta.metadata_of(body)
    objectmeta.tidy(metadata)
    objectmeta.carried(metadata, old["metadata"])
    if part != "status":
        kind.hooks.on_update(body, old)
    return body


def default(kind: Kind, body: Body, baseline: Baseline = NOTHING) -> None:
    """Fill in defaults, the schema's and the kind's own."""
    kind.schema.default(body, baseline)
    kind.hooks.default(body, baseline)


def check_change(
    kind: Kind, body: Body, old: Body, part: Part, baseline: Baseline = NOTHING
) -> None:
    """Refuse a change with everything that is wrong with it."""
    metadata = body["metadata"]
    causes = _decoded(kind, objectmeta.check_change(kind, metadata, old["metadata"]))
    causes += _causes(kind, body, old, part, baseline)
    _refuse(kind, metadata["name"], causes)


def settle_generation(kind: Kind, body: Body, old: Body) -> None:
    """Count one more generation when what the object asks for has changed."""
    if not kind.generation:
        return
    aside = _NOT_ASKED_FOR if kind.status else _ALWAYS_LOOKED_AT
    for name in (body.keys() | old.keys()) - aside:
        now, before = body.get(name), old.get(name)
        if now is not before and now != before:
            body["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            return


def same(body: Body, old: Body) -> bool:
    """Tell whether a write would change nothing. Python's 1 == True is not JSON's."""
    return body == old and _canonical(body) == _canonical(old)


def _only_status(kind: Kind, body: Body, old: Body) -> Body:
    result = {**old}
    result.pop("status", None)
    if "status" in body:
        result["status"] = body["status"]
    if kind.custom:
        result["metadata"] = dict(old["metadata"])
        return result
    metadata = objectmeta.metadata_of(body)
    if "ownerReferences" in old["metadata"]:
        metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
    else:
        metadata.pop("ownerReferences", None)
    result["metadata"] = metadata
    return result


def _causes(
    kind: Kind,
    body: Body,
    old: Body | None,
    part: Part = "",
    baseline: Baseline = NOTHING,
) -> list[Cause]:
    causes = kind.schema.refused(body, baseline)
    found = kind.schema.validate(body, old, status=part == "status", baseline=baseline)
    causes += _decoded(kind, found)
    if kind.rules is not None:
        unsaid = unchecked(causes) if causes else None
        causes += (
            kind.rules.check(body, old, baseline=bool(baseline)) if unsaid is None else [unsaid]
        )
    # Hooks are written for objects of the right shape.
    return causes or [*kind.hooks.validate(body, old)]


def _decoded(kind: Kind, causes: list[Cause]) -> list[Cause]:
    """Pass on what is wrong with an object's shape, unless its shape makes it no such object.

    A real server cannot even decode a built-in kind with a number where a string belongs.
    """
    if not causes or kind.custom:
        return causes
    mistyped = [cause for cause in causes if cause.reason == "FieldValueTypeInvalid"]
    if mistyped:
        raise undecodable(kind, ", ".join(f"{c.field}: {c.message}" for c in mistyped))
    return causes


def _refuse(kind: Kind, name: str, causes: Sequence[Cause]) -> None:
    if causes:
        raise invalid(kind, name, causes)
