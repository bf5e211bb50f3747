"""From the bytes of a request to an object: JSON or YAML, limits, duplicate fields.

bytes ──► decode ──► Decoded(body, duplicates) ──► verbs

Apart from the verbs because everything hostile arrives here first: size, depth, aliases, types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request import protobuf
from boilerhouse.platform.kube.status import BadRequest, UnsupportedMediaType
from boilerhouse.platform.kube.wire import JSON, YAML, Request

BODY_LIMIT = 3 * 1024 * 1024
# A YAML alias may stand for a tree, and that for another: the expanded size is what is bounded.
NODE_LIMIT = 500_000
DEPTH_LIMIT = 100
SMALL_YAML = 16 << 10
_YAML = (YAML, "application/x-yaml", "text/yaml")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Decoded(NamedTuple):
    """A body that is ours to change, and the paths of fields that were written twice."""

    body: Body
    duplicates: list[str]


def decode_object(
    request: Request, kind: Kind, *, duplicates: Literal["ignore", "likely", "all"] = "ignore"
) -> Decoded:
    """Decode the object that a create or update sends.

    `duplicates`: whether to look for fields that are there twice. "likely" does so only when the
    body is not already exactly what we would write, as that of any client of ours is.
    """
    try:
        value = _by_media(request)
    except _Malformed as error:
        raise _unrecognized(request, kind, error) from None
    if not isinstance(value, dict):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            "couldn't get version/kind; json parse error: it is not an object"
        )
    found: list[str] = []
    if media_type(request) == JSON and duplicates != "ignore":
        suspect = duplicates == "all" or len(_encode(value)) != len(request.body)
        found = list(_duplicates(request.body)) if suspect else []
    return Decoded(value, found)


def _unrecognized(request: Request, kind: Kind, error: Exception) -> BadRequest:
    shown = request.body[:256].decode(errors="replace") or "<empty>"
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind.kind}): "
        f"couldn't get version/kind; {error} ({shown})"
    )


def is_large_yaml(request: Request) -> bool:
    """Tell whether a body is YAML that takes long to be read: a megabyte takes half a second."""
    return len(request.body) > SMALL_YAML and media_type(request) in _YAML


def as_json(request: Request, kind: Kind) -> Request:
    """Return a request with its YAML body as JSON; raises BadRequest if it is none. Blocks."""
    try:
        body = _encode(_yaml(request.body))
    except (_Malformed, OverflowError) as error:
        raise _unrecognized(request, kind, error) from None
    return msgspec.structs.replace(
        request, headers={**request.headers, "content-type": JSON}, body=body
    )


def decode_options(request: Request) -> Body:
    """Decode the body of a delete: options, or nothing."""
    if not request.body.strip():
        return {}
    try:
        value = _by_media(request)
    except _Malformed as error:
        raise BadRequest(f"couldn't get version/kind; {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("couldn't get version/kind; json parse error: it is not an object")
    return value


def decode_patch(request: Request) -> Any:
    """Decode a patch, which is JSON whatever its media type says."""
    try:
        return _json(request.body)
    except _Malformed as error:
        raise BadRequest(f"error decoding patch: {error}") from None


def media_type(request: Request) -> str:
    return _media_type(request.headers.get("content-type", ""))


@lru_cache(maxsize=64)
def _media_type(header: str) -> str:
    return header.split(";", 1)[0].strip().lower() or JSON


class _Malformed(Exception):
    """The bytes are not what the media type says."""


def _by_media(request: Request) -> Any:
    media = media_type(request)
    if media == JSON:
        return _json(request.body)
    if media in _YAML:
        return _yaml(request.body)
    if media == protobuf.PROTOBUF:
        try:
            return protobuf.decode(request.body)
        except protobuf.NoSuchMessage:
            pass  # refused as any other type that is not spoken
        except ValueError as error:
            raise _Malformed(f"proto: {error}") from None
    raise UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {YAML}"
    )


def _json(data: bytes) -> Any:
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = _HALF if _has_half_a_pair(data) else error
        raise _Malformed(f"json parse error: {reason}") from None
    except RecursionError:
        raise _Malformed("json parse error: nested too deeply") from None
    if data.count(b"{") + data.count(b"[") > DEPTH_LIMIT:
        _check_extent(value)
    return value


_HALF = r"a string holds half of a surrogate pair, such as \ud800 alone, which is no character"


def _has_half_a_pair(data: bytes) -> bool:
    """Tell whether this is what is wrong with a text: our decoder calls it truncated."""
    try:
        json.dumps(json.loads(data), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _yaml(data: bytes) -> Any:
    try:
        # _Loader is a safe loader: it builds plain data and nothing else.
        value = yaml.load(data, Loader=_Loader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise _Malformed(f"yaml: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _Malformed("yaml: nested too deeply") from None
    _check_extent(value)
    return _plain(value)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # C or Python
    """YAML as Kubernetes reads it: what looks like a date stays a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in _Loader.yaml_implicit_resolvers.items()
}


def _check_extent(value: Any) -> None:
    nodes = 0
    level = [value]
    for _ in range(DEPTH_LIMIT):
        nodes += len(level)
        if nodes > NODE_LIMIT:
            raise _Malformed(f"json parse error: more than {NODE_LIMIT} values")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            if len(below) > NODE_LIMIT:
                raise _Malformed(f"json parse error: more than {NODE_LIMIT} values")
        if not below:
            return
        level = below
    raise _Malformed(f"json parse error: nested deeper than {DEPTH_LIMIT} levels")


def _plain(value: Any) -> Any:
    """Expand what YAML aliases share, and make every key a string, as JSON has it."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise _Malformed(f"yaml: a {type(value).__name__} has no place in an object")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise _Malformed("yaml: a key must be a string")


class _Twice(Exception):
    """Some member of some object is there twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Twice
    return result


_check_once = json.JSONDecoder(object_pairs_hook=_once).decode


def _duplicates(data: bytes) -> Iterator[str]:
    # Nearly every body is clean, and telling so is four times cheaper than naming the paths.
    try:
        _check_once(data.decode())
    except _Twice:
        yield from _twice_in(json.loads(data, object_pairs_hook=list), "")


def _twice_in(value: Any, path: str) -> Iterator[str]:
    """Walk objects kept as lists of pairs. A JSON list of such pairs cannot be confused: its
    items are lists, never tuples."""
    if not isinstance(value, list):
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        if isinstance(item, tuple):
            key, below = item
            here = f"{path}.{key}" if path else key
            if key in seen:
                yield here
            seen.add(key)
            yield from _twice_in(below, here)
        else:
            yield from _twice_in(item, f"{path}[{index}]")
