"""A first glance at an object: is everything about it right? msgspec tells, without a walk.

Node ──► Glance ──► right(fields) ──► True: nothing to prune, no flaw
                                 └──► False: schema.py and validate.py walk, and say what and where

Nearly every object that is written is right, and to walk it field by field only to find that out
would be most of what a write costs. So a schema is also written down as a msgspec type. That type
takes no more than the schema does: whatever it cannot express (alternatives, fractions, trees that
contain themselves) it does not take, and the walk decides. Only a walk ever refuses anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Union

import msgspec

from boilerhouse.embedded.apiserver.schemas.node import MISSING, Node, Number, Text
from boilerhouse.embedded.apiserver.schemas.validate import obeys

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_META: Final = ("apiVersion", "kind", "metadata")
# Texts that are remembered to obey, and the longest of them.
_KEPT: Final = 256
_SHORT: Final = 128


class _Inexpressible(Exception):
    """No type takes what the schema does and nothing else."""


class _Obedient(type):
    """A type of strings that obey what a schema says of them."""

    text: Text
    known: set[str]  # some that do: phases, reasons, names come again and again

    def __instancecheck__(cls, value: Any) -> bool:
        return value.__class__ is str and (value in cls.known or cls._obeys(value))

    def _obeys(cls, value: str) -> bool:
        if not obeys(cls.text, value):
            return False
        if len(value) <= _SHORT:
            if len(cls.known) >= _KEPT:
                cls.known.clear()
            cls.known.add(value)
        return True


class Glance:
    """The type of one kind's objects: made when it is first needed, which for many is never."""

    __slots__ = ("_made", "_root", "_type")

    def __init__(self, root: Node) -> None:
        self._root = root
        self._made = False
        self._type: type[msgspec.Struct] | None = None

    def right(self, fields: Mapping[str, Any]) -> bool:
        """Tell whether nothing is wrong with these fields of an object; others may be missing."""
        if not self._made:
            self._type, self._made = _Types().whole(self._root), True
        if self._type is None:
            return False
        try:
            msgspec.convert(fields, self._type)
        except msgspec.ValidationError:
            return False
        return True


class _Types:
    """Makes the types of one tree, each once."""

    def __init__(self) -> None:
        self._made: dict[Node, Any] = {}

    def whole(self, root: Node) -> type[msgspec.Struct] | None:
        """Return a type that asks for no field: which must be there is not seen at a glance."""
        types: dict[str, Any] = dict.fromkeys(_META, Any)
        try:
            if dict not in root.accepts or root.enum is not None:
                raise _Inexpressible
            _check_fields_only(root)
            types |= {name: self._of(child) for name, child in root.props.items()}
            if "metadata" in root.props:
                # What else is in it is no business of the schema's.
                types["metadata"] = self._object(root.props["metadata"], closed=False)
        except _Inexpressible:
            return None
        return _struct(types, ())

    def _of(self, node: Node) -> Any:
        found = self._made.get(node, MISSING)
        if found is MISSING:
            self._made[node] = None  # until it is made: a tree that contains itself comes here
            found = self._made[node] = self._make(node)
        if found is None:
            raise _Inexpressible
        return found

    def _make(self, node: Node) -> Any:
        if node.open or node.logic is not None:
            raise _Inexpressible
        if node.enum is not None:
            if node.enum_set is None or str not in node.accepts or node.text is not None:
                raise _Inexpressible
            return Literal[tuple(node.enum_set)]  # null is never listed
        choices: list[Any] = []
        if str in node.accepts:
            choices.append(_text_type(node.text))
        if int in node.accepts:
            choices.append(_int_type(node.number))
        if bool in node.accepts:
            choices.append(bool)
        if list in node.accepts:
            choices.append(self._list(node))
        if dict in node.accepts:
            choices.append(self._object(node))
        if len(choices) > 1 and isinstance(choices[0], _Obedient):
            raise _Inexpressible
        if node.nullable:
            choices.append(None)
        return Union[tuple(choices)]  # noqa: UP007 - they are not written here

    def _list(self, node: Node) -> Any:
        if node.items is None or node.preserve or node.unique:
            raise _Inexpressible
        # That its items differ, if they must, is seen to in shape.py.
        items: Any = list.__class_getitem__(self._of(node.items))
        return Annotated[items, _length(node.least_items, node.most_items)]

    def _object(self, node: Node, *, closed: bool = True) -> Any:
        if node.additional is not None and not (node.props or node.required or node.embedded):
            entries: Any = dict.__class_getitem__((str, self._of(node.additional)))
            return Annotated[entries, _length(node.least_props, node.most_props)]
        _check_fields_only(node)
        if not node.props.keys() >= set(node.required):
            raise _Inexpressible
        types = {name: self._of(child) for name, child in node.props.items()}
        return _struct(types, node.required, closed=closed)


def _text_type(text: Text | None) -> Any:
    if text is None:
        return str
    if text.pattern is None and text.is_format is None:
        return Annotated[str, _length(text.least, text.most)]
    return _Obedient("Text", (), {"text": text, "known": set()})


def _int_type(number: Number | None) -> Any:
    low, high = (_LEAST, _MOST) if number is None else (number.low, number.high)
    if low > high or low > _MOST or high < _LEAST:
        raise _Inexpressible
    return Annotated[int, msgspec.Meta(ge=max(low, _LEAST), le=min(high, _MOST))]


def _check_fields_only(node: Node) -> None:
    """Raise _Inexpressible unless an object here is its named fields and nothing else."""
    if node.logic is not None or node.preserve or node.embedded or node.additional_known:
        raise _Inexpressible
    if node.least_props is not None or node.most_props is not None:
        raise _Inexpressible


def _length(least: int | None, most: int | None) -> msgspec.Meta:
    if any(limit is not None and not 0 <= limit <= _MOST for limit in (least, most)):
        raise _Inexpressible
    return msgspec.Meta(min_length=least, max_length=most)


def _struct(
    types: Mapping[str, Any], required: tuple[str, ...], *, closed: bool = True
) -> type[msgspec.Struct]:
    # Numbered: a field of a Struct has a name of Python's, a property has any.
    names = {f"f{index}": name for index, name in enumerate(types)}
    fields = [
        (field, types[name]) if name in required else (field, types[name], None)
        for field, name in names.items()
    ]
    return msgspec.defstruct(
        "Fields", fields, rename=names, kw_only=True, forbid_unknown_fields=closed, gc=False
    )
