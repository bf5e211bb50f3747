"""The verbs of Kubernetes, typed: `await client.get(PODS, "web")` is a `Pod`.

Client ──► Request ──► Transport ──► Reply ──► Struct | ApiError

Reads decode into the resource's Struct. Writes take plain dicts and return what the server made of
them. A reply that is not a success is raised as the class of its reason (`status.py`). What only
Pods have (logs, exec, proxy) is in `client.pods`.

Only reads are tried again, and only when nobody answered or the server asked to wait: a write whose
answer was lost may have happened, and whether that matters is for the caller to find out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal, TypeVar

import msgspec

from boilerhouse.core.backoff import backoff
from boilerhouse.core.clock import Random, new_rng
from boilerhouse.platform.kube import listing, selectors, watch
from boilerhouse.platform.kube.kinds import Object, Scale
from boilerhouse.platform.kube.listing import Listing
from boilerhouse.platform.kube.pods import Pods
from boilerhouse.platform.kube.resources import Key, Resource
from boilerhouse.platform.kube.selectors import Labels
from boilerhouse.platform.kube.status import (
    ApiError,
    Gone,
    NotFound,
    Timeout,
    TooManyRequests,
    Unavailable,
)
from boilerhouse.platform.kube.wire import JSON, MERGE_PATCH, Reply, Request, Stream, Transport

T = TypeVar("T", bound=Object)
Body = Mapping[str, Any]
Query = Sequence[tuple[str, str]]
Propagation = Literal["Background", "Foreground", "Orphan"]

ALL = ""  # as a namespace: all of them
PAGE = 500
READ_BUDGET = 30.0  # seconds for a read with all its attempts
ATTEMPTS = 4
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0  # however long the server asks us to wait
ERROR_LIMIT = 1 << 20

_SCALE = msgspec.json.Decoder(Scale)


class Client:
    """An API server, through any transport. `namespace` is the one meant when none is named."""

    def __init__(
        self, transport: Transport, namespace: str = "default", *, rng: Random | None = None
    ) -> None:
        self.transport = transport
        self.namespace = namespace
        self.pods = Pods(self)
        self._rng = rng or new_rng()

    async def close(self) -> None:
        await self.transport.close()

    async def get(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> T:
        """Fetch one object; `NotFound` if there is none."""
        path = resource.path(self.resolve_namespace(namespace), name)
        return listing.one(resource, await self.read(Request("GET", path)))

    async def find(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        deferred: bool = False,
    ) -> T | None:
        """Fetch one object; None if there is none. For those who expect that as often as not.

        For `deferred` see `Request`.
        """
        path = resource.path(self.resolve_namespace(namespace), name)
        reply = await self.read(
            Request("GET", path, deferred=deferred), accept_status=NotFound.code
        )
        return None if reply.status == NotFound.code else listing.one(resource, reply)

    async def pages(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: Labels | str = "",
        fields: str = "",
        limit: int = PAGE,
    ) -> AsyncIterator[Listing[T]]:
        """List page by page, all true at the same moment.

        Raises `Gone` if the server has forgotten that moment before the last page was fetched.
        """
        query = _query(labels, fields, limit=limit or None)
        more = ""
        while True:
            path = resource.path(self.resolve_namespace(namespace))
            asked = (*query, ("continue", more)) if more else query
            page = listing.page(resource, await self.read(Request("GET", path, asked)))
            yield page
            more = page.more
            if not more:
                return

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: Labels | str = "",
        fields: str = "",
        limit: int = PAGE,
    ) -> Listing[T]:
        """List everything, in pages; begins again if the list expires between two of them."""
        for size in (limit, limit, 0):  # at last in one piece, which cannot expire
            try:
                return await self._collect(resource, namespace, labels, fields, size)
            except Gone:
                if not size:
                    raise
        raise AssertionError("unreachable")

    async def _collect(
        self,
        resource: Resource[T],
        namespace: str | None,
        labels: Labels | str,
        fields: str,
        limit: int,
    ) -> Listing[T]:
        items: builtin_list[T] = []
        misfits: dict[Key, str] = {}
        version = ""
        async for page in self.pages(
            resource, namespace=namespace, labels=labels, fields=fields, limit=limit
        ):
            items += page.items
            misfits |= page.misfits
            version = page.resource_version
        return Listing(items, version, misfits)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: Labels | str = "",
        fields: str = "",
        resource_version: str = "",
        timeout_seconds: int | None = None,
        read_timeout: float | None = None,
        send_initial_events: bool = False,
        known: watch.Known | None = None,
    ) -> AsyncGenerator[AsyncIterator[watch.WatchEvent[T]]]:
        """Open a watch (`watch.py` says how it ends). Bookmarks are always asked for.

        `timeout_seconds` is how long the server shall keep it open, `read_timeout` how long we bear
        silence. Give both; the informer explains why. What is `known` is not read once more.
        """
        query = _query(
            labels,
            fields,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=timeout_seconds,
            sendInitialEvents="true" if send_initial_events else "",
            resourceVersionMatch="NotOlderThan" if send_initial_events else "",
        )
        request = Request("GET", resource.path(self.resolve_namespace(namespace)), query)
        async with (
            self.stream(request, read_timeout=read_timeout) as stream,
            aclosing(watch.events(resource, stream.chunks, known)) as events,
        ):
            yield events

    async def create(
        self,
        resource: Resource[T],
        body: Body,
        *,
        namespace: str | None = None,
        deferred: bool = False,
    ) -> T:
        """Create; `AlreadyExists` if the name is taken. `apiVersion` and `kind` may be left out."""
        path = resource.path(self.resolve_namespace(_namespace_in(body, namespace)))
        return await self._write(resource, "POST", path, _typed(resource, body), deferred=deferred)

    async def replace(
        self,
        resource: Resource[T],
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> T:
        """Replace; `Conflict` if `metadata.resourceVersion` is given and not the current one."""
        where = self.resolve_namespace(_namespace_in(body, namespace))
        path = resource.path(where, body["metadata"]["name"], subresource)
        return await self._write(resource, "PUT", path, _typed(resource, body))

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        deferred: bool = False,
    ) -> T:
        """Merge `patch` into the object (RFC 7396): None removes, lists are replaced.

        With `metadata.resourceVersion` in the patch it is a compare-and-swap. For `deferred` see
        `Request`.
        """
        path = resource.path(self.resolve_namespace(namespace), name, subresource)
        return await self._write(resource, "PATCH", path, patch, MERGE_PATCH, deferred=deferred)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> T | None:
        """Delete, if it is still the one meant (`uid`, `resource_version`; else `Conflict`).

        Returns the object if it lingers (a finalizer, a grace period), None if it is gone.
        """
        options = _delete_options(uid, resource_version, grace, propagation)
        path = resource.path(self.resolve_namespace(namespace), name)
        reply = await self.call(_request("DELETE", path, options))
        left = listing.decoded(listing.BARE, "an object", reply.body)
        lingers = left.metadata.finalizers or left.metadata.deletion_grace_period_seconds
        if left.kind == "Status" or left.metadata.deletion_timestamp is None or not lingers:
            return None
        return listing.one(resource, reply)

    async def delete_collection(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: Labels | str = "",
        fields: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete all that is selected in one namespace."""
        options = _delete_options("", "", grace, propagation)
        path = resource.path(self.resolve_namespace(namespace))
        await self.call(_request("DELETE", path, options, query=_query(labels, fields)))

    async def scale(
        self,
        resource: Resource[T],
        name: str,
        replicas: int | None = None,
        *,
        namespace: str | None = None,
    ) -> Scale:
        """Set the replicas through the scale subresource, or with None just look."""
        path = resource.path(self.resolve_namespace(namespace), name, "scale")
        if replicas is None:
            reply = await self.read(Request("GET", path))
        else:
            patch = {"spec": {"replicas": replicas}}
            reply = await self.call(_request("PATCH", path, patch, MERGE_PATCH))
        return listing.decoded(_SCALE, "a Scale", reply.body)

    async def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Query = (),
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> Any:
        """Make any other call and return its JSON as plain data: discovery, /version, bindings."""
        request = _request(method, path, body, content_type, query)
        return listing.anything(await self.call(request, timeout=timeout))

    def resolve_namespace(self, namespace: str | None) -> str:
        """Return the namespace meant: None is the client's own, `ALL` is every one."""
        return self.namespace if namespace is None else namespace

    async def call(
        self, request: Request, *, timeout: float | None = None, accept_status: int | None = None
    ) -> Reply:
        """Make one call, once; anything but a success, and the status `also`, is raised."""
        reply = await self.transport.request(request, timeout=timeout)
        if not 200 <= reply.status < 300 and reply.status != accept_status:
            raise ApiError.parse(reply.status, reply.body, reply.headers.get("retry-after", ""))
        return reply

    async def read(
        self, request: Request, *, timeout: float = READ_BUDGET, accept_status: int | None = None
    ) -> Reply:
        """Make a call that changes nothing, again if nobody answered, within `timeout` in all."""
        time = asyncio.get_running_loop().time
        end = time() + timeout
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self.call(request, timeout=end - time(), accept_status=accept_status)
            except (Unavailable, Timeout, TooManyRequests) as error:
                # Jitter, or all who were refused at one moment come back at one moment.
                delay = backoff(attempt - 1, FIRST_DELAY, LONGEST_DELAY)
                pause = max(delay, min(error.retry_after, LONGEST_DELAY))
                pause *= self._rng.uniform(1.0, 1.5)
                if attempt == ATTEMPTS or time() + pause >= end:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncGenerator[Stream]:
        """Open a streamed answer; anything but a success is raised."""
        async with self.transport.stream(request, read_timeout=read_timeout) as stream:
            if not 200 <= stream.status < 300:
                body = b""
                async for chunk in stream.chunks:
                    body += chunk
                    if len(body) > ERROR_LIMIT:
                        break
                raise ApiError.parse(stream.status, body, stream.headers.get("retry-after", ""))
            yield stream

    async def _write(
        self,
        resource: Resource[T],
        method: str,
        path: str,
        body: object,
        content: str = JSON,
        *,
        deferred: bool = False,
    ) -> T:
        headers = {"content-type": content}
        request = Request(method, path, (), headers, msgspec.json.encode(body), deferred)
        return listing.one(resource, await self.call(request))


builtin_list = list  # inside the class the name is a verb


def _request(
    method: str,
    path: str,
    body: object,
    content_type: str = JSON,
    query: Query = (),
) -> Request:
    if body is None:
        return Request(method, path, tuple(query))
    headers = {"content-type": content_type}
    return Request(method, path, tuple(query), headers, msgspec.json.encode(body))


def _query(
    labels: Labels | str, fields: str, **more: str | int | None
) -> tuple[tuple[str, str], ...]:
    selector = labels if isinstance(labels, str) else selectors.render(labels)
    known = {"labelSelector": selector, "fieldSelector": fields, **more}
    return tuple((key, str(value)) for key, value in known.items() if value not in (None, ""))


def _typed(resource: Resource[T], body: Body) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _namespace_in(body: Body, namespace: str | None) -> str | None:
    return namespace if namespace is not None else body["metadata"].get("namespace")


def _delete_options(
    uid: str, resource_version: str, grace: int | None, propagation: Propagation | None
) -> dict[str, Any]:
    known = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in known.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        **({"preconditions": preconditions} if preconditions else {}),
        **({"gracePeriodSeconds": grace} if grace is not None else {}),
        **({"propagationPolicy": propagation} if propagation else {}),
    }
