"""ConfigMaps and Secrets: keys, sizes, base64, and `immutable`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

from boilerhouse.embedded.apiserver.builtin.rules import config_key, unchanged
from boilerhouse.embedded.apiserver.builtin.shapes import Unlike
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)

_MAX_BYTES = 1024 * 1024
# What a Secret of a well-known type has to contain.
_KEYS_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def default_secret(body: Body) -> None:
    """Spell the bytes canonically, and move `stringData` over them."""
    body.setdefault("type", "Opaque")
    _respell(body, "data")
    texts = body.pop("stringData", None)
    if texts:
        data = body.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_config_map(body: Body) -> None:
    _respell(body, "binaryData")


def _respell(body: Body, field: str) -> None:
    """Decode and encode base64 again; line breaks are allowed on the way in."""
    for key, text in body.get(field, {}).items():
        try:
            plain = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:  # binascii.Error, or a character that is not ASCII
            raise Unlike("illegal base64 data").within(f"{field}[{key}]") from None
        body[field][key] = base64.b64encode(plain).decode()


def _bytes(values: Iterable[str]) -> int:
    """Count what base64 texts decode to."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in values)


def validate_config_map(body: Body, old: Body | None) -> list[Cause]:
    causes: list[Cause] = []
    data, binary = body.get("data", {}), body.get("binaryData", {})
    for key in data:
        causes += config_key(f"data[{key}]", key)
        if key in binary:
            words = f"duplicate of key present in binaryData: {key}"
            causes.append(invalid_value(f"data[{key}]", key, words))
    for key in binary:
        causes += config_key(f"binaryData[{key}]", key)
    size = sum(len(text.encode()) for text in data.values()) + _bytes(binary.values())
    if size > _MAX_BYTES:
        causes.append(too_long("", _MAX_BYTES))
    return causes + _frozen(body, old, ("data", "binaryData"))


def validate_secret(body: Body, old: Body | None) -> list[Cause]:
    causes: list[Cause] = []
    data = body.get("data", {})
    for key in data:
        causes += config_key(f"data[{key}]", key)
    if _bytes(data.values()) > _MAX_BYTES:
        causes.append(too_long("data", _MAX_BYTES))
    for key in _KEYS_OF_TYPE.get(body["type"], ()):
        if key not in data:
            causes.append(required(f"data[{key}]"))
    if body["type"] == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        causes += [required("data[username]"), required("data[password]")]
    if old is not None:
        causes += unchanged("type", body["type"], old.get("type", "Opaque"))
    return causes + _frozen(body, old, ("data",))


def _frozen(body: Body, old: Body | None, fields: tuple[str, ...]) -> list[Cause]:
    if old is None or not old.get("immutable"):
        return []
    words = "field is immutable when `immutable` is set"
    causes = [
        forbidden_field(field, words)
        for field in fields
        if body.get(field, {}) != old.get(field, {})
    ]
    if not body.get("immutable"):
        causes.append(forbidden_field("immutable", words))
    return causes
