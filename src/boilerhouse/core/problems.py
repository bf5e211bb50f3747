"""Everything that is wrong with a spec, not only the first thing.

Decoding stops at the first mistake, which is right for a program and tiresome for a person. This
walks the same Structs that the schema is made of, so it knows the same bounds and the same rules.

    raw JSON ─► parts, each on its own ─► the whole: bounds, rules ─► sentences
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from boilerhouse.core.mistakes import in_words
from boilerhouse.core.patterns import MEANING
from boilerhouse.core.rules import rules_of


def problems(struct: type[msgspec.Struct], raw: object, path: str = "spec") -> list[str]:
    """Return one sentence, led by the field's path, for each thing wrong with `raw` as a `struct`.

    Empty means that `msgspec.convert(raw, struct)` works and that every rule holds.
    """
    return list(_problems(struct, raw, path))


def _problems(hint: Any, raw: object, path: str) -> Iterator[str]:
    """Ask the parts first, and the whole only if they are sound: it would repeat them."""
    parts_are_sound = True
    for sentence in _problems_of_parts(_bare(hint), raw, path):
        parts_are_sound = False
        yield sentence
    if not parts_are_sound:
        return
    try:
        value = msgspec.convert(raw, hint)
    except msgspec.ValidationError as error:
        yield f"{path}: {in_words(str(error), _meaning(hint))}"
        return
    if isinstance(value, msgspec.Struct):
        for rule in rules_of(type(value)):
            if rule.holds is not None and not rule.holds(value):
                yield f"{path}{'.' + rule.field if rule.field else ''}: {rule.message}"
    if isinstance(raw, list):
        yield from _doubles(hint, raw, path)


def _problems_of_parts(shape: Any, raw: object, path: str) -> Iterator[str]:
    """Walk into fields, items and values, as far as `raw` has the right shape at all."""
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct) and isinstance(raw, Mapping):
        for name, hint, required in _fields(shape):
            where = f"{path}.{name}"
            if name in raw:
                yield from _problems(hint, raw[name], where)
            elif required:
                yield f"{where}: required"
    elif get_origin(shape) is tuple and isinstance(raw, list):
        for index, value in enumerate(raw):
            yield from _problems(get_args(shape)[0], value, f"{path}[{index}]")
    elif get_origin(shape) is dict and isinstance(raw, Mapping):
        for key, value in raw.items():
            yield from _problems(get_args(shape)[1], value, f"{path}.{key}")


@functools.cache  # resolving annotations takes milliseconds, and they never change
def _fields(struct: type[msgspec.Struct]) -> list[tuple[str, Any, bool]]:
    """Return each field's name on the wire, its type with annotations, whether it must be there."""
    hints = get_type_hints(struct, include_extras=True)
    return [
        (field.encode_name, hints[field.name], field.required)
        for field in msgspec.structs.fields(struct)
    ]


def _doubles(hint: Any, raw: Sequence[Any], path: str) -> Iterator[str]:
    """Report items that a `set` or `map` list holds twice, as the API server does."""
    extra = _extra(hint)
    if extra.get("x-kubernetes-list-type") not in ("set", "map"):
        return
    keys = extra.get("x-kubernetes-list-map-keys")
    seen = []
    for index, item in enumerate(raw):
        identity = [item.get(key) for key in keys] if keys else item
        if identity in seen:
            yield f"{path}[{index}]: duplicate item"
        seen.append(identity)


def _bare(hint: Any) -> Any:
    """Strip what says nothing about the shape: Annotated, and `| None`."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (arm for arm in get_args(hint) if arm is not types.NoneType)
        return _bare(inner)
    return hint


def _meaning(hint: Any) -> str:
    """Return what a string of this type must be, in words; see `core.patterns.MEANING`."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(filter(None, map(_meaning, get_args(hint))), "")
    if get_origin(hint) is not Annotated:
        return ""
    inner, *metas = get_args(hint)
    extras = (meta.extra or {} for meta in metas if isinstance(meta, msgspec.Meta))
    return next((str(one[MEANING]) for one in extras if MEANING in one), _meaning(inner))


def _extra(hint: Any) -> dict[str, Any]:
    """Collect what the annotations of a type add to its schema."""
    if get_origin(hint) is not Annotated:
        return {}
    metas = (meta for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta))
    return {key: value for meta in metas for key, value in (meta.extra_json_schema or {}).items()}
