"""Create, read, replace, patch: what a request does to one object.

Request ──► decode ──► prepare ──► admit ──► check ──► Writer ──► (commit) ──► Reply

Every write decides on the head and submits without an `await` in between, so two requests can
never decide on the same state. The reply leaves after the commit, whoever asked. What needs no
state is done before that, and beside the event loop if the body is large (`_beside`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.policy.admission import Admission
from boilerhouse.embedded.apiserver.request.decoding import decode_object, decode_patch, media_type
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.options import WriteOptions, write_options
from boilerhouse.embedded.apiserver.request.refusals import (
    already_exists,
    conflict,
    invalid,
    invalid_options,
    not_found,
    too_new,
    undecodable,
    unversioned,
)
from boilerhouse.embedded.apiserver.request.rendering import object_reply
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.schemas.schema import NOTHING, Baseline
from boilerhouse.embedded.apiserver.storage.store import Key, Store, Stored
from boilerhouse.embedded.apiserver.verbs import deletion, objectmeta, preparing
from boilerhouse.embedded.apiserver.verbs.preparing import Part
from boilerhouse.embedded.apiserver.verbs.presenting import Presenter
from boilerhouse.embedded.apiserver.verbs.writing import Writer
from boilerhouse.embedded.fields import patch
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    UnsupportedMediaType,
    forbidden_field,
    invalid_value,
)
from boilerhouse.platform.kube.wire import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Reply,
    Request,
)

T = TypeVar("T")
A = TypeVarTuple("A")

_GENERATE_TRIES = 8
LARGE = 32 << 10  # bytes of a body that takes some milliseconds to be read or checked
# Says what a user should know of an object that was accepted: for `Warning` headers.
Adviser = Callable[[Kind, Body], Iterable[str]]
decode = msgspec.json.Decoder(dict[str, Any]).decode


class Verbs:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        admission: Admission,
        writer: Writer,
        presenter: Presenter,
        advisers: Sequence[Adviser] = (),
    ) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission
        self._writer = writer
        self._presenter = presenter
        self._advisers = advisers
        self._turn = asyncio.Lock()

    async def create(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        kind = target.kind
        options = write_options(request, "CreateOptions")
        large = _is_large(kind, request)
        body, warnings = await self._beside(large, _read, kind, request, options)
        metadata = objectmeta.metadata_of(body)
        version = metadata.pop("resourceVersion", None)
        _check_namespace(target, metadata)
        key = self._name(kind, target.namespace, metadata)
        preparing.prepare_new(kind, body, rfc3339(self._clock.now()))
        await self._beside(large, preparing.default, kind, body)
        self._admission.admit(kind, key, body)
        # What is in a namespace was admitted to it as it is at this moment, which must last.
        await self._beside(large and not key.namespace, preparing.check_new, kind, body)
        self._admission.check(kind, key, body)
        if version and not options.dry_run:
            # The last word is the storage's, which a dry run of a real server never asks.
            raise ApiError(
                "resourceVersion should not be set on objects to be created", code=500, reason=""
            )
        if self._store.head(key) is not None:
            raise already_exists(kind, key.name)
        if options.dry_run:
            if version:
                body["metadata"]["resourceVersion"] = version
            stored = unsaved(key, body)
        else:
            extra = self._admission.companions(kind, key)
            pending = self._writer.create(kind, key, body, *extra, deferred=options.deferred)
            stored = (await pending)[0]
        warnings = [*warnings, *self._advice(kind, stored)]
        return object_reply(kind, stored, rendering, self._clock.now, status=201, warnings=warnings)

    async def read(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        kind = target.kind
        self._check_not_newer(request.param("resourceVersion"))
        key = key_of(target)
        if request.deferred:
            stored = self._store.head(key)
        else:
            await self._store.wait_durable(key)
            stored = self._store.get(key)
        stored = found(stored, target)
        stored = self._presenter.shown(kind, stored)
        include = request.param("includeObject")
        return object_reply(kind, stored, rendering, self._clock.now, include=include)

    async def update(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        kind, part = target.kind, _part(target)
        options = write_options(request, "UpdateOptions")
        large = _is_large(kind, request)
        body, warnings = await self._beside(large, _read, kind, request, options)
        metadata = objectmeta.metadata_of(body)
        _check_address(target, metadata)
        stored = self._store.head(key_of(target))
        if stored is None:
            if kind.create_on_update and not part:
                return await self.create(target, request, rendering)
            raise not_found(kind, target.name)
        uid = metadata.get("uid")
        if uid and uid != stored.body["metadata"]["uid"]:
            raise conflict(
                kind,
                target.name,
                f"Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {stored.body['metadata']['uid']}",
            )
        if not metadata.get("resourceVersion"):
            if not kind.unconditional_update:
                raise unversioned(kind, target.name)
            metadata["resourceVersion"] = str(stored.revision)
        old, baseline = _before(kind, stored)
        if baseline:
            preparing.share(body, old)
        return await self._replace(
            target, stored, body, old, baseline, options, warnings, rendering
        )

    async def patch(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        kind = target.kind
        options = write_options(request, "PatchOptions")
        change = read_patch(kind, request)
        if request.param("force"):
            why = "may not be specified for non-apply patch"
            raise invalid_options("PatchOptions", [forbidden_field("force", why)])
        stored = found(self._store.head(key_of(target)), target)
        old, baseline = _before(kind, stored)
        body = change(old if baseline else decode(self._presenter.shown(kind, stored).raw))
        if "metadata" in body and body["metadata"] is old["metadata"]:
            body["metadata"] = dict(old["metadata"])
        unknown = kind.schema.prune(body, baseline)
        check_type(kind, body)
        warnings = options.complain_of_patch(kind, target.name, unknown)
        metadata = objectmeta.metadata_of(body)
        _check_address(target, metadata)
        # A patch that does not name a version is about whatever is there.
        metadata.setdefault("resourceVersion", str(stored.revision))
        return await self._replace(
            target, stored, body, old, baseline, options, warnings, rendering
        )

    async def _replace(
        self,
        target: Target,
        stored: Stored,
        body: Body,
        old: Body,
        baseline: Baseline,
        options: WriteOptions,
        warnings: Sequence[str],
        rendering: Rendering,
    ) -> Reply:
        """Make `body` the next version of `stored`, which is the head; see `_before`."""
        kind, part = target.kind, _part(target)
        check_version(kind, stored, body["metadata"]["resourceVersion"])
        body = preparing.prepare_change(kind, body, old, part, baseline)
        preparing.check_change(kind, body, old, part, baseline)
        self._admission.check_change(kind, stored.key, body, old)
        preparing.settle_generation(kind, body, old)
        result = await self.store_change(
            kind, stored, body, dry_run=options.dry_run, deferred=options.deferred
        )
        if not part:
            warnings = [*warnings, *self._advice(kind, result)]
        return object_reply(kind, result, rendering, self._clock.now, warnings=warnings)

    async def _beside(self, large: bool, work: Callable[[*A], T], *args: *A) -> T:
        """Do what depends on nothing but its arguments, in a thread if they are large.

        One at a time: of several threads that compute, the event loop would wait for each in turn.
        """
        if not large:
            return work(*args)
        async with self._turn:
            return await asyncio.to_thread(work, *args)

    def _advice(self, kind: Kind, stored: Stored) -> list[str]:
        return [words for adviser in self._advisers for words in adviser(kind, stored.body)]

    async def store_change(
        self,
        kind: Kind,
        stored: Stored,
        body: Body,
        *,
        dry_run: bool = False,
        deferred: bool = False,
    ) -> Stored:
        """Write a checked change: nothing if it changes nothing, a removal if it was the last
        thing that held a dying object."""
        old = stored.body
        if preparing.same(body, old):
            if self._store.get(stored.key) is not stored:
                await self._store.flush()  # what it equals is not on disk yet
            return stored
        if dry_run:
            return unsaved(stored.key, body)
        if deletion.finished(kind, body):
            return (await self._writer.remove(kind, stored.key, body))[0]
        return (await self._writer.change(kind, stored.key, body, old, deferred=deferred))[0]

    def _name(self, kind: Kind, namespace: str, metadata: dict[str, Any]) -> Key:
        """Return where the object goes, with a generated name if it has none."""
        prefix = metadata.get("generateName", "")
        if metadata.get("name") or not prefix:
            return Key(kind.resource, namespace, metadata.get("name", ""))
        for _ in range(_GENERATE_TRIES):
            metadata["name"] = objectmeta.generated_name(prefix)
            key = Key(kind.resource, namespace, metadata["name"])
            if self._store.head(key) is None:
                break
        return key

    def _check_not_newer(self, version: str) -> None:
        if version and parse_version(version) > self._store.revision:
            raise too_new(int(version), self._store.revision)


def _is_large(kind: Kind, request: Request) -> bool:
    """Whether to read a body beside the event loop; a custom kind may become another meanwhile."""
    return len(request.body) > LARGE and not kind.custom


def _read(kind: Kind, request: Request, options: WriteOptions) -> tuple[Body, list[str]]:
    """Return the object that was sent, without what its kind does not know, and warnings."""
    body, duplicates = decode_object(request, kind, duplicates=options.duplicates)
    unknown = kind.schema.prune(body)
    check_type(kind, body)
    return body, options.complain(kind, unknown, duplicates)


def key_of(target: Target) -> Key:
    return Key(target.kind.resource, target.namespace, target.name)


def found(stored: Stored | None, target: Target) -> Stored:
    """Return what a target names, as far as it is there."""
    if stored is None:
        raise not_found(target.kind, target.name)
    return stored


def unsaved(key: Key, body: Body) -> Stored:
    """Return what a dry run shows: the object as it would be, with the version it had."""
    return Stored(key, 0, body, msgspec.json.encode(body))


def parse_version(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{text}"')
    return int(text)


def check_version(kind: Kind, stored: Stored, version: str) -> None:
    """Refuse a write that was decided on another version than the one it would replace."""
    if version != str(stored.revision):
        parse_version(version)
        raise conflict(kind, stored.key.name)


def check_type(kind: Kind, body: Body) -> None:
    """Refuse an object of another type; built-in kinds may leave theirs out."""
    sent, version = body.get("kind"), body.get("apiVersion")
    if sent == kind.kind and version == kind.api_version:
        return
    if not sent or not version:
        if kind.custom:
            missing = "apiVersion" if sent else "Kind"
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {kind.kind}): "
                f"Object '{missing}' is missing"
            )
        sent, version = sent or kind.kind, version or kind.api_version
    if sent == kind.kind and version == kind.api_version:
        body["kind"], body["apiVersion"] = sent, version
        return
    if kind.custom and version != kind.api_version:
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if not kind.custom:
        raise undecodable(kind, f'it is a "{sent}" of version "{version}"')
    name = objectmeta.metadata_of(body).get("name", "")
    raise invalid(kind, name, [invalid_value("kind", sent, f"must be {kind.kind}")])


def read_patch(kind: Kind, request: Request) -> Callable[[Body], Body]:
    """Return what the patch makes of an object; refuse media types that are not spoken."""
    media = media_type(request)
    if media == MERGE_PATCH:
        changes, nulls = decode_patch(request), b"null" in request.body
        return lambda body: patch.merge(body, changes, nulls=nulls)
    if media == APPLY_PATCH or media.startswith("application/apply-patch"):
        raise UnsupportedMediaType(
            "server-side apply (application/apply-patch) is not supported here: "
            f"send {MERGE_PATCH}, {JSON_PATCH} or, for built-in kinds, {STRATEGIC_PATCH}"
        )
    if media == JSON_PATCH:
        operations = decode_patch(request)
        return lambda body: patch.json_patch(body, operations)
    keys = kind.merge_keys
    if media == STRATEGIC_PATCH and keys is not None:
        strategic = decode_patch(request)
        return lambda body: preparing.share(patch.strategic(body, strategic, keys), body)
    accepted = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if keys is not None else [])]
    raise UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )


def _before(kind: Kind, stored: Stored) -> tuple[Body, Baseline]:
    """Return the stored body, and that what is shared with it need not be looked at again.

    If the schema has changed since, everything must be: then the baseline is empty, and the body
    is a copy, which may be written to.
    """
    if stored.revision >= kind.since:
        body = stored.body
        return body, body
    return decode(stored.raw), NOTHING


def _part(target: Target) -> Part:
    return "status" if target.subresource == "status" else ""


def _check_namespace(target: Target, metadata: dict[str, Any]) -> None:
    namespace = metadata.get("namespace", "")
    if namespace and namespace != target.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        metadata["namespace"] = target.namespace


def _check_address(target: Target, metadata: dict[str, Any]) -> None:
    name = metadata.get("name", "")
    if name == target.name and metadata.get("namespace", "") == target.namespace:
        return
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    _check_namespace(target, metadata)
