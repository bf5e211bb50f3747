"""The structural schema of one kind: prune, default, validate, refuse.

request body ──► prune (unknown fields, nulls) ──► default ──► validate(new, old) ──► store
             every pass leaves out the `baseline`: what a write leaves as it is stored
stored body  ──► default (a schema may have gained some since) ──► reply

Both CRDs and built-in kinds are trees of OpenAPI v3; built-in ones may share `definitions` by
`$ref`. The order of the passes is the real server's. Checking is in validate.py, the compiled tree
in node.py; here is what changes a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from boilerhouse.embedded.apiserver.schemas.metadata import prune_metadata
from boilerhouse.embedded.apiserver.schemas.node import (
    MISSING,
    NOTHING,
    Baseline,
    Builder,
    Node,
    SchemaError,
)
from boilerhouse.embedded.apiserver.schemas.validate import Check
from boilerhouse.embedded.fields.patch import copied
from boilerhouse.platform.kube.status import Cause, forbidden_field

__all__ = ["NOTHING", "Baseline", "Builder", "Schema", "SchemaError"]

_INT64: Final = 2**63
_META: Final = frozenset({"apiVersion", "kind", "metadata"})


class Schema:
    """A compiled schema. Immutable; safe to share."""

    __slots__ = ("_check", "openapi", "root")

    def __init__(self, root: Node) -> None:
        self.root = root
        self.openapi: Mapping[str, Any] = root.openapi
        self._check = Check(root)

    @classmethod
    def compile(
        cls,
        openapi: Mapping[str, Any],
        definitions: Mapping[str, Any] | None = None,
        *,
        builder: Builder | None = None,
    ) -> Schema:
        """Compile a tree; kinds that share definitions may share a `builder` and so their nodes.

        Raise SchemaError when the tree asks for something that cannot be checked here.
        """
        return cls((builder or Builder(definitions)).tree(openapi))

    def prune(self, body: dict[str, Any], baseline: Baseline = NOTHING) -> list[str]:
        """Remove what the schema does not know and meaningless nulls; return the unknown paths.

        Only unknown fields are reported (sorted); a null that stands for nothing just goes. Raise
        BadRequest when `metadata` has fields of wrong types.
        """
        unknown: list[str] = []
        prune_metadata(body, "", unknown, baseline)
        _prune_object(self.root, body, "", unknown, True, baseline)
        unknown.sort()
        return unknown

    def default(self, body: dict[str, Any], baseline: Baseline = NOTHING) -> None:
        """Fill in defaults wherever the parent is there.

        Also for what is read from storage and after a write has dropped `status`: a default of
        `status` itself then comes back, so that objects are born with it.
        """
        if self.root.defaults_below:
            _default(self.root, body, baseline)

    def validate(
        self,
        body: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        status: bool = False,
        baseline: Baseline = NOTHING,
    ) -> list[Cause]:
        """Return everything that is wrong with a pruned and defaulted body.

        With `old`, what was wrong before and has not been touched is tolerated. `status` is for
        writes to the status subresource, where the rest of the object is not looked at again.
        """
        return self._check.run(body, old, status=status, baseline=baseline)

    def refused(self, body: dict[str, Any], baseline: Baseline = NOTHING) -> list[Cause]:
        """Return a cause for each field that Kubernetes knows and that is not honoured here.

        A field that says nothing (null, false, zero, empty) asks for nothing and passes.
        """
        causes: list[Cause] = []
        if self.root.refused_below:
            _refused(self.root, body, "", causes, baseline)
        return causes


def _prune(node: Node, value: Any, path: str, unknown: list[str], baseline: Any = NOTHING) -> None:
    if value.__class__ is dict:
        _prune_object(node, value, path, unknown, node.embedded, baseline)
    elif node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            cls = item.__class__
            if cls is dict or cls is list:
                if node.preserve and not items.preserve:
                    _prune_kept(items, item, f"{path}[{index}]", unknown)
                else:
                    _prune(items, item, f"{path}[{index}]", unknown)
            elif cls is float or (cls is int and not -_INT64 <= item < _INT64):
                value[index] = _as_written(item)
    elif not node.preserve:
        _empty_below(value, path, unknown)


def _prune_object(
    node: Node,
    value: dict[str, Any],
    path: str,
    unknown: list[str],
    meta: bool,
    baseline: Any,
) -> None:
    """Prune a dict. `meta`: apiVersion, kind and metadata are not the schema's business."""
    if node.embedded:
        prune_metadata(value, f"{path}.", unknown)
    props, extra, preserve = node.props, node.additional, node.preserve
    gone: list[str] | None = None
    if baseline.__class__ is not dict:
        baseline = NOTHING
    for key, item in value.items():
        if meta and key in _META:
            continue
        child, cls = props.get(key, extra), item.__class__
        if child is not None and (cls is str or cls is bool):
            continue
        was = baseline.get(key, MISSING)
        if item is was:
            continue
        if child is None:
            if node.additional_known:
                _empty_below(item, f"{path}.{key}" if path else key, unknown)
            elif not preserve:
                unknown.append(f"{path}.{key}" if path else key)
                gone = [*gone, key] if gone else [key]
            continue
        if cls is dict or cls is list:
            _prune(child, item, f"{path}.{key}" if path else key, unknown, was)
        elif item is None:
            if not child.nullable and child.default is MISSING:
                gone = [*gone, key] if gone else [key]
        elif cls is float or (cls is int and not -_INT64 <= item < _INT64):
            value[key] = _as_written(item)
    if gone:
        for key in gone:
            del value[key]


def _prune_kept(node: Node, value: Any, path: str, unknown: list[str]) -> None:
    """Walk an item of a list that preserves unknown fields: what is known is still pruned."""
    if value.__class__ is list:
        for index, item in enumerate(value):
            if node.items is not None and item.__class__ in (dict, list):
                _prune_kept(node.items, item, f"{path}[{index}]", unknown)
        return
    for key, item in value.items():
        child = node.props.get(key) or node.additional
        if child is not None and item.__class__ in (dict, list):
            _prune(child, item, f"{path}.{key}", unknown)


def _empty_below(value: Any, path: str, unknown: list[str]) -> None:
    """Remove every field inside something of which no schema is known."""
    if value.__class__ is dict:
        unknown.extend(f"{path}.{key}" for key in value)
        value.clear()
    elif value.__class__ is list:
        for index, item in enumerate(value):
            _empty_below(item, f"{path}[{index}]", unknown)


def _as_written(value: float) -> float:
    """Return the number as a server gives it back: 3 for 3.0, no more digits than a float has."""
    value = float(value)
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < 1e21 else value


def _default(node: Node, value: Any, baseline: Any = NOTHING) -> None:
    if value.__class__ is dict:
        if baseline.__class__ is not dict:
            baseline = NOTHING
        for key, child in node.defaulting:
            present = value.get(key, MISSING)
            if present is MISSING or (present is None and not child.nullable):
                if child.default is MISSING:
                    continue
                value[key] = present = copied(child.default)
            elif present is baseline.get(key, MISSING):
                continue
            if child.defaults_below and present is not None:
                _default(child, present, baseline.get(key))
        extra = node.additional
        if extra is not None:
            for key, item in value.items():
                if key in node.props or item is baseline.get(key, MISSING):
                    continue
                if item is None and not extra.nullable and extra.default is not MISSING:
                    value[key] = item = copied(extra.default)
                if extra.defaults_below:
                    _default(extra, item, baseline.get(key))
    elif value.__class__ is list and node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            if item is None and not items.nullable and items.default is not MISSING:
                value[index] = item = copied(items.default)
            if items.defaults_below:
                _default(items, item)


def _refused(
    node: Node, value: Any, path: str, causes: list[Cause], baseline: Any = NOTHING
) -> None:
    if value.__class__ is dict:
        if baseline.__class__ is not dict:
            baseline = NOTHING
        props, extra = node.props, node.additional
        for key in filter(node.refusing.__contains__, value) if extra is None else value:
            child, item = props.get(key, extra), value[key]
            if child is None or not item or item is baseline.get(key, MISSING):
                continue
            where = f"{path}.{key}" if path else key
            if child.refused:
                causes.append(forbidden_field(where, f"not supported here: {child.refused}"))
            elif child.refused_below:
                _refused(child, item, where, causes, baseline.get(key))
    elif value.__class__ is list and node.items is not None and node.items.refused_below:
        for index, item in enumerate(value):
            _refused(node.items, item, f"{path}[{index}]", causes)
