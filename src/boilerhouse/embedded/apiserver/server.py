"""The embedded API server: one function from a request to an answer.

Request ──► discovery, OpenAPI, health
        └─► routing ──► (method, what is named) ──► verb ──► Reply | Stream
store ──► every committed change ──► collector, namespaces, definitions      clock ──► expiry

Knows nothing of sockets, tokens or TLS: whoever calls `handle` has been let in. Each ApiError
becomes its Status; a store that cannot write is a 500 that says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import structlog

from boilerhouse.core import supervision
from boilerhouse.core.clock import Clock
from boilerhouse.core.supervision import supervised
from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.background.collector import Collector
from boilerhouse.embedded.apiserver.background.definitions import Definitions
from boilerhouse.embedded.apiserver.background.expiry import Expiry
from boilerhouse.embedded.apiserver.background.faults import Faults
from boilerhouse.embedded.apiserver.background.namespaces import Namespaces
from boilerhouse.embedded.apiserver.crd import kind as crd
from boilerhouse.embedded.apiserver.crd.compiled import Compiler
from boilerhouse.embedded.apiserver.describing.discovery import Discovery
from boilerhouse.embedded.apiserver.describing.openapi import OpenApi
from boilerhouse.embedded.apiserver.node import Node, Session
from boilerhouse.embedded.apiserver.policy.admission import ALWAYS, Admission
from boilerhouse.embedded.apiserver.policy.quota import Quotas
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request import metrics as requestmetrics
from boilerhouse.embedded.apiserver.request.decoding import BODY_LIMIT, as_json, is_large_yaml
from boilerhouse.embedded.apiserver.request.negotiation import Rendering, negotiate
from boilerhouse.embedded.apiserver.request.refusals import (
    no_such_resource,
    not_allowed,
    refuse_impersonation,
)
from boilerhouse.embedded.apiserver.request.rendering import as_yaml, encode, error_reply, is_yaml
from boilerhouse.embedded.apiserver.request.routing import Target, find
from boilerhouse.embedded.apiserver.storage.store import Change, Store, StoreFailed
from boilerhouse.embedded.apiserver.verbs.listing import Lists
from boilerhouse.embedded.apiserver.verbs.objects import Adviser, Verbs
from boilerhouse.embedded.apiserver.verbs.pods import SESSIONS, Pods
from boilerhouse.embedded.apiserver.verbs.presenting import Presenter
from boilerhouse.embedded.apiserver.verbs.removal import Removal
from boilerhouse.embedded.apiserver.verbs.scale import Scales
from boilerhouse.embedded.apiserver.verbs.selection import truth
from boilerhouse.embedded.apiserver.verbs.watching import Watches
from boilerhouse.embedded.apiserver.verbs.writing import Writer
from boilerhouse.platform.kube.status import ApiError, BadRequest, InternalError, TooLarge
from boilerhouse.platform.kube.wire import JSON, Reply, Request, Stream

log = structlog.get_logger()

_Verb = Callable[[Target, Request, Rendering], Awaitable[Reply]]
# What other objects are in. Those who look after one hear of it, and of all that goes.
_HOLDERS = (crd.RESOURCE, "namespaces")
_PART = "apiserver."  # what the names of our background tasks begin with


class ApiServer:
    """`start` it, `handle` requests, `stop` it. The store belongs to the caller."""

    def __init__(self, store: Store, clock: Clock, namespaces: Iterable[str] = ()) -> None:
        """`namespaces`: made at the start, and kept, as `default` is."""
        self.registry = Registry(builtin.kinds())
        self._always = (*ALWAYS, *namespaces)
        # Kubelets by the name of their Node object; whoever runs one adds it.
        self.nodes: dict[str, Node] = {}
        # Asked about each object that is written; what they say is sent along as warnings.
        self.advisers: list[Adviser] = []
        self._store = store
        self._clock = clock
        self._serving = False
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_following: Callable[[], None] = lambda: None
        self._begins_anew: asyncio.TimerHandle | None = None
        writer = Writer(store, Quotas(store, self.registry))
        admission = Admission(store, clock)
        presenter = Presenter()
        self._lists = Lists(store, clock, presenter)
        self._watches = Watches(store, clock, presenter)
        self._verbs = Verbs(store, clock, admission, writer, presenter, self.advisers)
        self._removal = Removal(store, clock, writer, self._lists, self._always)
        self._scales = Scales(store, clock, admission, self._verbs)
        self._pods = Pods(store, clock, writer, self.nodes, self._removal.delete)
        self._compiler = Compiler()
        self._definitions = Definitions(store, self.registry, clock, self._removal, self._verbs)
        self._collector = Collector(store, self.registry, self._removal)
        self._namespaces = Namespaces(
            store, self.registry, clock, admission, self._removal, self._verbs
        )
        self._expiry = Expiry(store, self.registry, clock, self._removal)
        self._following = Faults("changes")
        self._faults = (
            self._following,
            self._collector.passes.faults,
            self._namespaces.passes.faults,
            self._definitions.passes.faults,
            self._expiry.faults,
        )
        self._discovery = Discovery(self.registry, self._unready)
        self._openapi = OpenApi(self.registry, builtin.definitions())
        self._table = self._routes()

    async def start(self) -> None:
        """Serve what the store holds: its CRDs, its unfinished deletions, the first namespaces."""
        self._definitions.begin()
        for name in self._always:
            await self._make_namespace(name)
        self._begin()
        self._stop_following = self._store.follow(self._follow)
        self._tasks = [
            asyncio.create_task(supervised(f"{_PART}{name}", run), name=f"{_PART}{name}")
            for name, run in (
                ("collector", self._collector.passes.run),
                ("namespaces", self._namespaces.passes.run),
                ("definitions", self._definitions.passes.run),
                ("expiry", self._expiry.run),
            )
        ]
        self._serving = True

    def _unready(self) -> list[str]:
        """Say what keeps us from being whole."""
        if not self._serving:
            return ["not serving"]
        failing = [f"{faults.part} fails, see the log" for faults in self._faults if faults]
        failing += [died for died in supervision.complaints() if died.startswith(_PART)]
        return [f"writes fail: {self._store.trouble}", *failing] if self._store.trouble else failing

    async def stop(self) -> None:
        """Stop what runs in the background. Requests in flight end by themselves."""
        self._serving = False
        self._stop_following()
        if self._begins_anew is not None:
            self._begins_anew.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)  # told by _ended
        self._tasks = []

    async def handle(self, request: Request) -> Reply | Stream:
        """Answer a request. Never raises ApiError: that is an answer, too."""
        began = self._clock.monotonic()
        verb, resource = request.method, ""
        answer: Reply | Stream
        try:
            if len(request.body) > BODY_LIMIT:
                raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
            refuse_impersonation(request.headers)
            target = find(self.registry, request.path)
            if target is None:
                described = self._discovery.answer(request) or self._openapi.answer(request)
                return described or _nothing_here()
            resource = target.kind.resource
            if verb == "GET":
                verb = _label(target, request)
            if is_large_yaml(request):
                request = await asyncio.to_thread(as_json, request, target.kind)
            answer = await self._dispatch(target, request)
            if isinstance(answer, Reply) and is_yaml(answer):
                answer = await asyncio.to_thread(as_yaml, answer)
        except ApiError as error:
            answer = error_reply(error)
        except StoreFailed as error:
            log.error("apiserver.store_failed", method=request.method, path=request.path,
                      error=str(error))  # fmt: skip
            answer = error_reply(InternalError(f"Internal error occurred: {error}"))
        except RecursionError:
            answer = error_reply(BadRequest("the object is nested too deeply"))
        requestmetrics.count(verb, resource, answer.status, self._clock.monotonic() - began)
        return answer

    async def open(self, request: Request, subprotocols: tuple[str, ...]) -> Session:
        """Begin a WebSocket (exec, attach, port-forward, proxy); raises ApiError to refuse it."""
        refuse_impersonation(request.headers)
        target = find(self.registry, request.path)
        if target is None or target.kind.resource != "pods":
            raise no_such_resource()
        if target.subresource not in (*SESSIONS, "proxy"):
            raise BadRequest(f"{request.path} is not a WebSocket")
        return await self._pods.open(target, request, subprotocols)

    async def _dispatch(self, target: Target, request: Request) -> Reply | Stream:
        method = request.method
        verb = self._table.get((method, "one" if target.name else "many", target.subresource))
        watched = target.watch and method == "GET" and not target.subresource
        if verb is None or watched:
            return await self._answer_otherwise(target, request)
        rendering = negotiate(request.headers.get("accept", ""))
        if method == "GET":
            return await verb(target, request, rendering)
        try:
            if target.kind.resource == crd.RESOURCE:
                write = partial(verb, target, request, rendering)
                answer = await self._compiler.beside_the_loop(write)
            else:
                answer = await verb(target, request, rendering)
        except ApiError:
            # The refusal may rest on a write that is not on disk yet. Whoever is told "already
            # exists" may look at once, and must find it.
            if self._store.unsettled:
                await self._store.flush()
            raise
        self._definitions.note(target.kind)
        return answer

    async def _answer_otherwise(self, target: Target, request: Request) -> Reply | Stream:
        """Answer what is no verb of the table: lists, watches, what only Pods have; or refuse."""
        method, sub = request.method, target.subresource
        if sub == "log" and method == "GET":
            return await self._pods.logs(target, request)
        if sub == "proxy":
            return await self._pods.proxy(target, request)
        if sub in SESSIONS and method in ("GET", "POST"):
            return await self._pods.upgrade_required(target, request)
        rendering = negotiate(request.headers.get("accept", ""))
        if method == "GET" and not sub:
            if target.watch or truth(request, "watch"):
                return self._watches.answer(target, request, rendering)
            await self._store.wait_durable()
            return await self._lists.answer(target, request, rendering)
        shape = "one" if target.name else "many"
        known = any(route[1:] == (shape, sub) for route in self._table)
        raise not_allowed() if known else no_such_resource(target.kind.plural, target.kind.group)

    def _routes(self) -> dict[tuple[str, str, str], _Verb]:
        verbs, removal, scales, pods = self._verbs, self._removal, self._scales, self._pods
        table: dict[tuple[str, str, str], _Verb] = {
            ("POST", "many", ""): verbs.create,
            ("DELETE", "many", ""): removal.many,
            ("GET", "one", ""): verbs.read,
            ("PUT", "one", ""): verbs.update,
            ("PATCH", "one", ""): verbs.patch,
            ("DELETE", "one", ""): removal.one,
            ("GET", "one", "status"): verbs.read,
            ("PUT", "one", "status"): verbs.update,
            ("PATCH", "one", "status"): verbs.patch,
            ("GET", "one", "scale"): scales.read,
            ("PUT", "one", "scale"): scales.update,
            ("PATCH", "one", "scale"): scales.patch,
            ("POST", "one", "binding"): pods.bind,
            ("POST", "one", "eviction"): pods.evict,
            ("PUT", "one", "finalize"): self._namespaces.finalize,
        }
        return table

    async def _make_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        request = Request(
            "POST", "/api/v1/namespaces", headers={"content-type": JSON}, body=encode(body)
        )
        answer = await self.handle(request)
        if answer.status not in (201, 409):
            text = answer.body.decode() if isinstance(answer, Reply) else ""
            raise RuntimeError(f"namespace {name} could not be made: {text}")

    def _begin(self) -> None:
        """Look at everything once; what comes after is told by the store."""
        self._collector.begin()
        self._namespaces.begin()
        self._definitions.begin()

    def _follow(self, changes: list[Change]) -> None:
        """Take note of what was committed. What goes wrong is mended by a look at everything."""
        if self._begins_anew is not None:
            return
        try:
            for change in changes:
                self._see(change)
        except Exception as error:  # noqa: BLE001  told by Faults
            self._lose_track(error)

    def _lose_track(self, error: Exception) -> None:
        delay = self._following.failed("", error)
        loop = asyncio.get_running_loop()
        self._begins_anew = loop.call_later(delay, self._begin_anew)

    def _begin_anew(self) -> None:
        self._begins_anew = None
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001  told by Faults
            self._lose_track(error)
        else:
            self._following.worked("")

    def _see(self, change: Change) -> None:
        resource = change.key.resource
        if change.left is None or resource in _HOLDERS:
            self._definitions.see(change)
            self._namespaces.see(change)
        if resource == crd.RESOURCE:
            self._collector.begin()  # owners of a kind that was unknown can be looked up now
        self._collector.see(change)


def _label(target: Target, request: Request) -> str:
    """Say what a GET is: of one object, of many, or a watch."""
    if target.subresource:
        return "GET"
    if target.watch or request.param("watch") in ("1", "true"):
        return "WATCH"
    return "GET" if target.name else "LIST"


def _nothing_here() -> Reply:
    return Reply(404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"})
