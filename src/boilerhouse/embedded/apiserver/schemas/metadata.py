"""`metadata` of any object: the fields it may have, and their types.

Schema.prune ──► prune_metadata

A schema says nothing about `metadata` (it is the same for every kind), so it is read here: wrong
types are refused, unknown fields and empty ones dropped, as a server does that decodes it into a
struct and writes it out again. What the values mean is objectmeta.py's matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from boilerhouse.embedded.apiserver.schemas.node import MISSING, NOTHING, Baseline, changed_fields
from boilerhouse.platform.kube.status import BadRequest


class _Owner(msgspec.Struct):
    apiVersion: str | None = None  # noqa: N815 - the wire's name
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _Managed(msgspec.Struct):
    manager: str | None = None
    operation: str | None = None
    apiVersion: str | None = None  # noqa: N815
    time: str | None = None
    fieldsType: str | None = None  # noqa: N815
    fieldsV1: dict[str, Any] | None = None  # noqa: N815
    subresource: str | None = None


class _ObjectMeta(msgspec.Struct):
    """The fields, by their names on the wire."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815
    namespace: str | None = None
    selfLink: str | None = None  # noqa: N815
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    labels: Mapping[str, str | None] | None = None
    annotations: Mapping[str, str | None] | None = None
    ownerReferences: Sequence[_Owner] | None = None  # noqa: N815
    finalizers: list[str] | None = None
    managedFields: Sequence[_Managed] | None = None  # noqa: N815


_FIELDS: Final = frozenset(_ObjectMeta.__struct_fields__)
_OWNER_FIELDS: Final = frozenset(_Owner.__struct_fields__)
_MANAGED_FIELDS: Final = frozenset(_Managed.__struct_fields__)
# Zero means something here, so only null is dropped.
_KEPT_AT_ZERO: Final = frozenset({"deletionGracePeriodSeconds"})


def prune_metadata(
    holder: dict[str, Any], prefix: str, unknown: list[str], baseline: Baseline = NOTHING
) -> None:
    """Clean `holder["metadata"]` in place; add the paths of unknown fields to `unknown`.

    Raise BadRequest when a field has the wrong type: such an object cannot even be read.
    """
    meta = holder.get("metadata", MISSING)
    if meta is MISSING:
        return
    if meta is None:
        holder["metadata"] = {}
        return
    path = f"{prefix}metadata"
    fields = meta
    if meta.__class__ is dict and "metadata" in baseline:
        fields = changed_fields(meta, baseline["metadata"])
    # A union is put together at each use, which takes longer than the check: for its words alone.
    wanted: Any = _ObjectMeta if fields.__class__ is dict else _ObjectMeta | None
    try:
        msgspec.convert(fields, wanted)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{path}: {error}") from error
    strangers = fields.keys() - _FIELDS
    if strangers:
        unknown.extend(f"{path}.{name}" for name in strangers)
    for key in ("labels", "annotations"):
        pairs = fields.get(key)
        if pairs and None in pairs.values():
            meta[key] = {name: value or "" for name, value in pairs.items()}
    _prune_items(fields.get("ownerReferences"), _OWNER_FIELDS, f"{path}.ownerReferences", unknown)
    _prune_items(fields.get("managedFields"), _MANAGED_FIELDS, f"{path}.managedFields", unknown)
    gone = [
        key
        for key, value in fields.items()
        if key in strangers or (not value and (value is None or key not in _KEPT_AT_ZERO))
    ]
    for key in gone:
        del meta[key]


def _prune_items(
    items: list[dict[str, Any]] | None, known: frozenset[str], path: str, unknown: list[str]
) -> None:
    for index, item in enumerate(items or ()):
        strangers = item.keys() - known
        if strangers:
            unknown.extend(f"{path}[{index}].{name}" for name in strangers)
            for name in strangers:
                del item[name]
