"""Lists: selectors, pages, and how old an answer may be.

scan (now, or at a retained revision) ──► select ──► page ──► joined stored bytes

The pages of one list show one moment, whatever is written between them: the token of the next page
names the revision of the first, and the history can undo what has changed since. A token older than
the history gets 410 and, with it, one that carries on inconsistently, as a real server does.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_left
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.refusals import invalid_options, too_new
from boilerhouse.embedded.apiserver.request.rendering import (
    as_table,
    encode,
    metadata_only,
    written,
)
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.index import place
from boilerhouse.embedded.apiserver.storage.store import Expired, Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs.objects import parse_version
from boilerhouse.embedded.apiserver.verbs.presenting import Presenter
from boilerhouse.embedded.apiserver.verbs.selection import Selection, number, select
from boilerhouse.embedded.apiserver.verbs.writing import type_lead
from boilerhouse.platform.kube.status import (
    BadRequest,
    Cause,
    Gone,
    forbidden_field,
    unsupported_value,
)
from boilerhouse.platform.kube.wire import Reply, Request

IN_TURN = 500  # objects in one turn of the event loop; as many as kubectl asks for at a time
_INCONSISTENT = -1
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    """Where a list goes on. The client must not read it; that it could is no secret."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: what it holds, at which revision, how to go on, how much is left."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None


class TokenExpired(Gone):
    """410 with a token to go on with."""

    def __init__(self, token: str) -> None:
        super().__init__(_EXPIRED)
        self.token = token

    def to_status(self) -> dict[str, Any]:
        return {**super().to_status(), "metadata": {"continue": self.token}}


class Lists:
    def __init__(self, store: Store, clock: Clock, presenter: Presenter) -> None:
        self._store = store
        self._clock = clock
        self._presenter = presenter

    async def answer(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Answer a list request."""
        page = await self.page(target, request)
        return await self.reply(target.kind, page, request, rendering)

    async def page(self, target: Target, request: Request) -> Page:
        """Return the part of the list that the request asks for."""
        _check_options(request)
        selection = select(target, request)
        number(request, "timeoutSeconds")  # refused if it is none, although a list takes no time
        limit = max(0, number(request, "limit"))
        token = request.param("continue")
        start: tuple[str, str] | None = None
        if token:
            if request.param("resourceVersion") not in ("", "0"):
                raise BadRequest("specifying resource version is not allowed when using continue")
            items, revision, start = self._resume(target, token)
        else:
            items, revision = self._begin(target, selection, request)
        items = self._presenter.all_shown(target.kind, items)
        return await _cut(items, revision, start, limit, selection)

    async def reply(self, kind: Kind, page: Page, request: Request, rendering: Rendering) -> Reply:
        """Render a page. The plain form joins the stored bytes: nothing is decoded."""
        metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
        if page.token:
            metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if rendering.plain:
            head = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (
                kind.list_kind.encode(),
                kind.api_version.encode(),
                encode(metadata),
            )
            parts = [head]
            async for items in _in_turns(page.items):
                comma = b"," if len(parts) > 1 else b""
                parts.append(comma + b",".join(_items(kind, items)))
            return Reply(200, b"".join([*parts, b"]}"]))
        value = await self._shaped(kind, page, request, rendering)
        value["metadata"] = metadata
        headers = {"content-type": rendering.content_type}
        return Reply(200, written(value), headers)

    async def _shaped(self, kind: Kind, page: Page, request: Request, rendering: Rendering) -> Body:
        """Shape every object."""
        include, now = request.param("includeObject"), self._clock.now()
        rows: list[Body] = []
        async for items in _in_turns(page.items):
            bodies = [item.body for item in items]
            if rendering.shape == "Table":
                rows += as_table(kind, bodies, rendering, now, include, "")["rows"]
            elif rendering.shape:
                rows += [metadata_only(body, rendering.version) for body in bodies]
            else:
                rows += bodies
        if rendering.shape == "Table":
            return {**as_table(kind, [], rendering, now, include, ""), "rows": rows}
        if rendering.shape:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{rendering.version}",
                "items": rows,
            }
        return {"kind": kind.list_kind, "apiVersion": kind.api_version, "items": rows}

    def _begin(
        self, target: Target, selection: Selection, request: Request
    ) -> tuple[list[Stored], int]:
        version = request.param("resourceVersion")
        asked = parse_version(version) if version else 0
        current = self._store.revision
        if asked > current:
            raise too_new(asked, current)
        if request.param("resourceVersionMatch") == "Exact" and asked != current:
            try:
                return self._store.scan_at(target.kind.resource, asked, target.namespace), asked
            except Expired as error:
                raise Gone(str(error)) from None
        name = selection.name
        if name and (target.namespace or not target.kind.namespaced):
            one = self._store.get(Key(target.kind.resource, target.namespace, name))
            return ([] if one is None else [one]), current
        return self._store.scan(target.kind.resource, target.namespace), current

    def _resume(self, target: Target, text: str) -> tuple[list[Stored], int, tuple[str, str]]:
        token = _read_token(text)
        namespace, _, name = token.start.partition("/")
        start = (f"{namespace}/", name)
        resource = target.kind.resource
        if token.rv == _INCONSISTENT:
            return self._store.scan(resource, target.namespace), self._store.revision, start
        if token.rv > self._store.revision:
            raise BadRequest("invalid continue token: it is of a revision that is not yet")
        try:
            return self._store.scan_at(resource, token.rv, target.namespace), token.rv, start
        except Expired:
            raise TokenExpired(_write_token(_INCONSISTENT, start)) from None


async def _in_turns(items: list[Stored]) -> AsyncIterator[list[Stored]]:
    """Part a long list; others have the event loop between any two parts of it."""
    for start in range(0, len(items), IN_TURN):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + IN_TURN]


async def _cut(
    items: list[Stored],
    revision: int,
    start: tuple[str, str] | None,
    limit: int,
    selection: Selection,
) -> Page:
    begin = bisect_left(items, start, key=_place) if start is not None else 0
    if selection.everything:
        end = min(len(items), begin + limit) if limit else len(items)
        chosen = items[begin:end]
    else:
        end, chosen = begin, []
        while end < len(items) and not (limit and len(chosen) == limit):
            if selection.matches(items[end].body):
                chosen.append(items[end])
            end += 1
            if not end % IN_TURN:
                await asyncio.sleep(0)
    if end == len(items):
        return Page(chosen, revision)
    token = _write_token(revision, _place(items[end]))
    remaining = len(items) - end if selection.everything else None
    return Page(chosen, revision, token, remaining)


def _items(kind: Kind, items: list[Stored]) -> list[bytes]:
    """Return the stored bytes; those of built-in kinds without type, which the list states."""
    if kind.custom:
        return [item.raw for item in items]
    lead = type_lead(kind)
    size = len(lead)
    return [b"{" + item.raw[size:] if item.raw.startswith(lead) else item.raw for item in items]


def _place(stored: Stored) -> tuple[str, str]:
    return place(stored.key)


def _write_token(revision: int, start: tuple[str, str]) -> str:
    token = encode(_Token(revision, start[0] + start[1]))
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(data, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None


def _check_options(request: Request) -> None:
    causes: list[Cause] = []
    match = request.param("resourceVersionMatch")
    version = request.param("resourceVersion")
    if match:
        if request.param("continue"):
            why = "resourceVersionMatch is forbidden when continue is provided"
            causes.append(forbidden_field("resourceVersionMatch", why))
        elif not version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(forbidden_field("resourceVersionMatch", why))
        if match not in ("Exact", "NotOlderThan"):
            known = ("Exact", "NotOlderThan", "")
            causes.append(unsupported_value("resourceVersionMatch", match, known))
        elif match == "Exact" and version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(forbidden_field("resourceVersionMatch", why))
    if request.param("sendInitialEvents"):
        why = "sendInitialEvents is forbidden for list"
        causes.append(forbidden_field("sendInitialEvents", why))
    if causes:
        raise invalid_options("ListOptions", causes)
