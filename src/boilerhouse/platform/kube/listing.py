"""Reading replies: one object, or a page of many.

Reply ──► T | Listing[T]

A page is decoded in one go. Only when that fails is each object looked at alone, since one object
that does not fit its Struct must not hide all the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from boilerhouse.platform.kube.kinds import Bare, ListMeta, Object, Page
from boilerhouse.platform.kube.resources import Key, Resource, key_of
from boilerhouse.platform.kube.status import InternalError
from boilerhouse.platform.kube.wire import Reply

T = TypeVar("T", bound=Object)
D = TypeVar("D")

BARE = msgspec.json.Decoder(Bare)
_ANY_PAGE: msgspec.json.Decoder[Page[msgspec.Raw]] = msgspec.json.Decoder(Page[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Objects as they all were at one resourceVersion.

    `misfits` are those that do not fit the resource's Struct, with the reason.
    """

    items: list[T]
    resource_version: str
    misfits: dict[Key, str]
    more: str = ""  # the continue token of a page; empty on the last one


def one(resource: Resource[T], reply: Reply) -> T:
    """Read an object."""
    try:
        return resource.decode(reply.body)
    except msgspec.MsgspecError as error:
        raise _not(f"a {resource.kind}", error) from error


def page(resource: Resource[T], reply: Reply) -> Listing[T]:
    """Read a page of a list."""
    try:
        whole: Page[T] = resource.page_decoder.decode(reply.body)
    except msgspec.ValidationError:
        return _mixed(resource, reply)
    except msgspec.MsgspecError as error:
        raise _not("a list", error) from error
    return _listing(whole.items or [], whole.metadata, {})


def decoded(decoder: msgspec.json.Decoder[D], what: str, body: bytes | msgspec.Raw) -> D:
    """Decode, or say that the server answered something else than `what`."""
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise _not(what, error) from error


def _not(what: str, error: msgspec.MsgspecError) -> InternalError:
    return InternalError(f"the server's answer is not {what}: {error}")


def anything(reply: Reply) -> Any:
    """Read JSON as plain data; nothing is None."""
    return decoded(_PLAIN, "JSON", reply.body) if reply.body else None


_PLAIN: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _mixed(resource: Resource[T], reply: Reply) -> Listing[T]:
    parts = decoded(_ANY_PAGE, "a list", reply.body)
    items: list[T] = []
    misfits: dict[Key, str] = {}
    for raw in parts.items or []:
        try:
            items.append(resource.decode(raw))
        except msgspec.ValidationError as error:
            misfits[key_of(decoded(BARE, "an object", raw))] = str(error)
    return _listing(items, parts.metadata, misfits)


def _listing(items: list[T], metadata: ListMeta, misfits: dict[Key, str]) -> Listing[T]:
    return Listing(items, metadata.resource_version, misfits, metadata.continue_)
