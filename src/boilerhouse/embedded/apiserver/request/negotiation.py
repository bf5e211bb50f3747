"""What the client wants to read: Accept ──► Rendering.

JSON and YAML are spoken; protobuf is offered by some clients first and JSON after it, so the first
of the accepted types that is ours wins. Tables and metadata-only forms are parameters of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from boilerhouse.platform.kube.status import NotAcceptable
from boilerhouse.platform.kube.wire import JSON, YAML

_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_JSON_TYPES = (JSON, "application/*", "*/*")


@dataclass(frozen=True, slots=True)
class Rendering:
    """How to write an object: `shape` is "" for the object itself, or a meta.k8s.io kind."""

    media: str = JSON
    shape: str = ""
    version: str = "v1"
    plain: bool = field(init=False)  # the stored bytes can go out as they are

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", self.media == JSON and not self.shape)

    @property
    def content_type(self) -> str:
        if not self.shape:
            return self.media
        return f"{self.media};as={self.shape};g=meta.k8s.io;v={self.version}"


def accepted(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the media types of an Accept header, each with its parameters."""
    for clause in header.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        yield media, dict(p.split("=", 1) for p in parameters if "=" in p)


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Rendering:
    """Choose by the Accept header; raises NotAcceptable when nothing in it is spoken here."""
    if not accept.strip():
        return Rendering()
    transformed = False
    for media, options in accepted(accept):
        if media in _JSON_TYPES:
            shape = options.get("as", "")
            if not shape:
                return Rendering()
            version = options.get("v", "")
            known = shape in _TRANSFORMS and options.get("g") == "meta.k8s.io"
            if known and version in ("v1", "v1beta1"):
                return Rendering(JSON, shape, version)
            transformed = True
        elif media == YAML:
            return Rendering(YAML)
    if transformed:
        raise NotAcceptable(f"only the following media types are accepted: {JSON}, {YAML}")
    raise NotAcceptable(
        f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}, {JSON};stream=watch"
    )
