"""One watch: a stream of JSON lines turned into events.

Stream.chunks ──► lines ──► WatchEvent ──► informer

A watch either ends cleanly (the server's own `timeoutSeconds` has passed) or raises. There is no
third outcome: an ERROR event, a line that is not JSON, a line cut off by the end of the stream and
a broken connection are all errors, because after any of them it is unknown what was missed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from boilerhouse.platform.kube.kinds import Bare, Object
from boilerhouse.platform.kube.resources import Key, Resource, key_of
from boilerhouse.platform.kube.status import ApiError, InternalError

T = TypeVar("T", bound=Object)

LINE_LIMIT = 32 << 20  # far above the largest object that etcd takes


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change, or a bookmark: "you have seen everything up to here".

    `object` is None in a bookmark, if the reader has this version or a newer one (`known`), and if
    the object does not fit its Struct; `misfit` says why.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    key: Key
    resource_version: str
    object: T | None = None
    misfit: str = ""
    initial_events_end: bool = False
    known: bool = False


class Known(Protocol):
    """What the reader of a watch has from elsewhere: the answers to its own writes."""

    @property
    def ahead(self) -> bool:
        """Whether there is any of it that the watch has not told of yet."""
        ...

    def holds(self, key: Key, resource_version: str) -> bool:
        """Whether it has this version of an object, or a newer one."""
        ...


class _Envelope(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)


class _Glance(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: _Versioned


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_GLANCE = msgspec.json.Decoder(_Glance)
_BARE = msgspec.json.Decoder(Bare)


async def events(
    resource: Resource[T], chunks: AsyncIterable[bytes], known: Known | None = None
) -> AsyncGenerator[WatchEvent[T]]:
    """Read events until the stream ends; raises `ApiError` on anything that is not an event."""
    # The pieces of a line are joined once, when it is complete: to add each one to a growing
    # buffer would copy a large object over and over.
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:  # a few times faster than to split
            line = chunk[start:end]
            start = end + 1
            if parts:
                line = b"".join((*parts, line))
                parts, size = [], 0
            if line.strip():
                yield parse(resource, line, known)
        if start < len(chunk):
            parts.append(chunk[start:])
            size += len(chunk) - start
        if size > LINE_LIMIT:
            raise InternalError(f"watch: an event of more than {LINE_LIMIT} bytes")
    if b"".join(parts).strip():
        raise InternalError("watch: the stream ended in the middle of an event")


def parse(resource: Resource[T], line: bytes, known: Known | None = None) -> WatchEvent[T]:
    """Understand one line."""
    try:
        if known is not None and known.ahead:
            # To look for its version costs a third of reading an object.
            glance = _GLANCE.decode(line)
            meta = glance.object.metadata
            key = Key(meta.namespace, meta.name)
            if glance.type in ("ADDED", "MODIFIED") and known.holds(key, meta.resource_version):
                return WatchEvent(glance.type, key, meta.resource_version, known=True)
        envelope = _ENVELOPE.decode(line)
        if envelope.type == "ERROR":
            raise ApiError.parse(500, bytes(envelope.object))
        if envelope.type == "BOOKMARK":
            mark = _BARE.decode(envelope.object).metadata
            return WatchEvent(
                "BOOKMARK",
                Key("", ""),
                mark.resource_version,
                initial_events_end=mark.annotations.get("k8s.io/initial-events-end") == "true",
            )
        try:
            item = resource.decode(envelope.object)
        except msgspec.ValidationError as error:
            bare = _BARE.decode(envelope.object)
            return WatchEvent(
                envelope.type, key_of(bare), bare.metadata.resource_version, misfit=str(error)
            )
    except msgspec.MsgspecError as error:
        raise InternalError(f"watch: not an event: {error}: {line[:200]!r}") from error
    return WatchEvent(envelope.type, key_of(item), item.metadata.resource_version, item)
