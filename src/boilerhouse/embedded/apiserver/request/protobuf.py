"""Objects as protobuf, one way: what Go clients send becomes what JSON would have said.

k8s\\0 + Unknown(apiVersion, kind, raw) ──► message by its field numbers ──► dict

kubectl's `create secret`, `create namespace` and their like, and every client that is generated
with "prefers protobuf", send built-in kinds in this form and do not try another. Answers need not
be: all of these accept JSON. The numbers are data (builtin/messages.json); custom resources have
no protobuf form anywhere.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from boilerhouse.core.clock import rfc3339, rfc3339_micro

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_DEPTH = 100
_MACHINERY = "io.k8s.apimachinery.pkg."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# number -> (name in JSON, "" = its fields are written into the object around it; type; "repeated",
# "map" from strings, or "")
Message = Mapping[str, tuple[str, str, str]]


_DECODER = msgspec.json.Decoder(dict[str, dict[str, tuple[str, str, str]]])


class NoSuchMessage(Exception):
    """The type has no protobuf form here."""


def decode(data: bytes) -> dict[str, Any]:
    """Decode an object. Raise ValueError on bad bytes, NoSuchMessage on a type without a table."""
    if not data.startswith(_MAGIC):
        raise ValueError("the protobuf envelope does not begin with k8s")
    type_meta, raw = b"", b""
    for number, value in _fields(data[len(_MAGIC) :]):
        if number == 1:
            type_meta = _bytes(value)
        elif number == 2:
            raw = _bytes(value)
    named = {number: _text(value) for number, value in _fields(type_meta)}
    api_version, kind = named.get(1, ""), named.get(2, "")
    body = _message(_name(api_version, kind), raw, 0)
    return {"apiVersion": api_version, "kind": kind, **body}


@cache
def _messages() -> Mapping[str, Message]:
    builtin = resources.files("boilerhouse.embedded.apiserver.builtin")
    return _DECODER.decode(builtin.joinpath("messages.json").read_bytes())


def _name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    own = f"io.k8s.api.{group.split('.')[0] or 'core'}.{version}.{kind}"
    for name in (own, f"{_MACHINERY}apis.meta.v1.{kind}"):
        if name in _messages():
            return name
    raise NoSuchMessage(f"{api_version} {kind}")


def _message(name: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > _DEPTH:
        raise ValueError("the message is nested too deeply")
    fields, body = _messages()[name], dict[str, Any]()
    for number, value in _fields(data):
        found = fields.get(str(number))
        if found is None:
            continue  # a newer client's field, as unknown as an unknown JSON field that is ignored
        key, type_, how = found
        if not key:
            body |= _message(type_, _bytes(value), depth + 1)
        elif how == "map":
            entry = dict(_fields(_bytes(value)))
            item = _value(type_, entry.get(2, b""), depth + 1)
            body.setdefault(key, {})[_text(entry.get(1, b""))] = item
        elif how == "repeated":
            body.setdefault(key, []).append(_value(type_, value, depth + 1))
        else:
            body[key] = _value(type_, value, depth + 1)
    return body


def _value(type_: str, value: int | bytes, depth: int) -> Any:
    match type_:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(_bytes(value)).decode("ascii")
        case "bool":
            return bool(_number(value))
        case "int32" | "int64":
            return _number(value)
    special = _SPECIAL.get(type_)
    return special(_bytes(value)) if special else _message(type_, _bytes(value), depth)


def _quantity(data: bytes) -> str:
    return _text(dict(_fields(data)).get(1, b""))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    return _text(parts.get(3, b"")) if _number(parts.get(1, 0)) else _number(parts.get(2, 0))


def _moment(data: bytes) -> datetime | None:
    """Read seconds and nanoseconds; a message without content is Go's zero time: no time at all."""
    parts = dict(_fields(data))
    if not parts:
        return None
    seconds, nanos = _number(parts.get(1, 0)), _number(parts.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError("a time is out of range") from None


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else rfc3339(moment)


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else rfc3339_micro(moment)


def _managed(data: bytes) -> Any:
    return msgspec.json.decode(_bytes(dict(_fields(data)).get(1, b"{}")))


# Types whose JSON form is not the message's own.
_SPECIAL = {
    f"{_MACHINERY}api.resource.Quantity": _quantity,
    f"{_MACHINERY}util.intstr.IntOrString": _int_or_string,
    f"{_MACHINERY}apis.meta.v1.Time": _time,
    f"{_MACHINERY}apis.meta.v1.MicroTime": _micro_time,
    f"{_MACHINERY}apis.meta.v1.FieldsV1": _managed,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values: integers, or the bytes of everything else."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} is not known")
        if size > end - at:
            raise ValueError("the message is cut short")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("the message is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a number is too long")


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("a number was expected")
    # Negative numbers travel as their two's complement in 64 bits, whatever the type.
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a message or text was expected")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()  # UnicodeDecodeError is a ValueError
