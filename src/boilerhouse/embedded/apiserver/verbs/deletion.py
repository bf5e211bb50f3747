"""How objects go: grace, finalizers, propagation; and when one is really gone.

DELETE ──► decide(kind, stored, options) ──► Gone | Kept | Unchanged ──► writing

The deciding half is pure: given the object and what was asked, which of the three happens. An
object with finalizers, with a grace period to run, or (a Namespace) with content is *kept*, marked
by `deletionTimestamp`; it goes when the last of these is removed (`finished`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from boilerhouse.core.clock import parse_time, rfc3339
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.decoding import decode_options
from boilerhouse.embedded.apiserver.request.options import dry_run_causes
from boilerhouse.embedded.apiserver.request.refusals import invalid_options
from boilerhouse.embedded.apiserver.storage.store import Stored
from boilerhouse.embedded.fields.numbers import whole_number
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    invalid_value,
    unsupported_value,
)
from boilerhouse.platform.kube.wire import Request

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan", "nil")
# Answer a completed delete with the object instead of a Status, as the real server does for these.
RETURNED = frozenset(
    {"pods", "services", "serviceaccounts", "resourcequotas", "persistentvolumeclaims"}
)
DEFAULT_POD_GRACE = 30


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - the wire's name


class DeleteOptions(msgspec.Struct):
    """What a delete may ask for, in its body or (where there is none) as query parameters."""

    apiVersion: str = ""  # noqa: N815 - the wire's name
    kind: str = ""
    gracePeriodSeconds: int | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    orphanDependents: bool | None = None  # noqa: N815
    preconditions: _Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class Gone:
    """The object goes now; `body` is how it was last."""

    body: Body


@dataclass(frozen=True, slots=True)
class Kept:
    """The object stays for now, as `body`."""

    body: Body


@dataclass(frozen=True, slots=True)
class Unchanged:
    """It is being deleted already, and nothing asked for changes that."""


def read_options(request: Request) -> DeleteOptions:
    """Read and check the options of a delete."""
    try:
        options = msgspec.convert(decode_options(request), DeleteOptions)
    except msgspec.ValidationError as error:
        raise BadRequest(f"DeleteOptions cannot be read: {error}") from None
    if options.kind not in ("", "DeleteOptions"):
        raise BadRequest(f'expected DeleteOptions in the body, got "{options.kind}"')
    if not request.body.strip():
        _read_query(request, options)
    causes: list[Cause] = []
    policy = options.propagationPolicy
    if policy and policy not in _POLICIES[:3]:
        causes.append(unsupported_value("propagationPolicy", policy, _POLICIES))
    elif policy and options.orphanDependents is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", policy, why))
    causes += dry_run_causes(options.dryRun or ())
    if causes:
        raise invalid_options("DeleteOptions", causes)
    if options.orphanDependents is not None:
        options.propagationPolicy = "Orphan" if options.orphanDependents else "Background"
    return options


def _read_query(request: Request, options: DeleteOptions) -> None:
    grace = request.param("gracePeriodSeconds")
    if grace:
        try:
            options.gracePeriodSeconds = whole_number(grace)
        except ValueError as error:
            raise BadRequest(f'gracePeriodSeconds: parsing "{grace}": {error}') from None
    options.propagationPolicy = request.param("propagationPolicy") or None
    orphan = request.param("orphanDependents")
    if orphan:
        options.orphanDependents = orphan in ("true", "1")
    options.dryRun = request.params("dryRun")


def check_preconditions(kind: Kind, stored: Stored, options: DeleteOptions) -> None:
    """Refuse to delete another object, or another version of it, than the client saw."""
    wanted = options.preconditions
    if wanted is None:
        return
    metadata = stored.body["metadata"]
    if wanted.uid is not None and wanted.uid != metadata.get("uid"):
        raise _unmet(
            kind,
            stored,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({metadata.get('uid')}). The object might have been deleted and then recreated",
        )
    if wanted.resourceVersion is not None and wanted.resourceVersion != str(stored.revision):
        raise _unmet(
            kind,
            stored,
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match "
            f"the ResourceVersion in record ({stored.revision}). "
            "The object might have been modified",
        )


def _unmet(kind: Kind, stored: Stored, why: str) -> ApiError:
    name = stored.key.name
    return Conflict(
        f'Operation cannot be fulfilled on {kind.kind} "{name}": {why}',
        kind=kind.kind,
        group=kind.group,
        name=name,
    )


def decide(
    kind: Kind, body: Body, options: DeleteOptions, now: datetime
) -> Gone | Kept | Unchanged:
    """Say what a delete does to an object. `body` is not touched."""
    metadata = dict(body["metadata"])
    finalizers = _with_policy(metadata.get("finalizers", []), options.propagationPolicy)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    deleting = "deletionTimestamp" in metadata
    grace = _grace(kind, body, options, deleting=deleting)
    if deleting:
        if grace is not None and grace < metadata.get("deletionGracePeriodSeconds", 0):
            _shorten(metadata, grace)
    else:
        _mark(kind, metadata, grace or 0, now)
    result = {**body, "metadata": metadata}
    if _is_namespace(kind) and not deleting:
        result["status"] = {**body.get("status", {}), "phase": "Terminating"}
    if finished(kind, result):
        return Gone(result)
    return Unchanged() if result == body else Kept(result)


def finished(kind: Kind, body: Body) -> bool:
    """Tell whether nothing holds an object any more that is being deleted."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if _is_namespace(kind):
        return not body.get("spec", {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _with_policy(finalizers: Sequence[str], policy: str | None) -> list[str]:
    if policy is None:
        return list(finalizers)
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept


def _grace(kind: Kind, body: Body, options: DeleteOptions, *, deleting: bool) -> int | None:
    """Return the seconds to wait; None when an object already on its way is to stay so."""
    asked = options.gracePeriodSeconds
    if kind.resource != "pods":
        return None if deleting else 0
    if deleting and asked is None:
        return None
    spec = body.get("spec", {})
    if not spec.get("nodeName") or body.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0  # nothing runs that could be given time
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds")
    grace = DEFAULT_POD_GRACE if asked is None else int(asked)
    return 1 if grace < 0 else grace


def _mark(kind: Kind, metadata: dict[str, Any], grace: int, now: datetime) -> None:
    metadata["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
    if not _is_namespace(kind):
        metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _shorten(metadata: dict[str, Any], grace: int) -> None:
    before = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
    asked_at = parse_time(metadata["deletionTimestamp"]) - before
    metadata["deletionTimestamp"] = rfc3339(asked_at + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace


def _is_namespace(kind: Kind) -> bool:
    return kind.resource == "namespaces"
