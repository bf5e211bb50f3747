"""The answers that are not a success, worded as the real server words them.

Clients read `reason` and `details`, people read the message, and scripts out there match both:
so each refusal has one place. Verbs raise them, `apiserver/server.py` renders them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.platform.kube.status import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Timeout,
    invalid_value,
)

USER = "boilerhouse"  # who every caller is
_AUTHENTICATION = "authentication.k8s.io"
_IMPERSONATED = {
    "impersonate-user": ("users", ""),
    "impersonate-group": ("groups", ""),
    "impersonate-uid": ("uids", _AUTHENTICATION),
}
STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def not_found(kind: Kind, name: str) -> ApiError:
    return NotFound(
        f'{kind.resource} "{name}" not found', kind=kind.plural, group=kind.group, name=name
    )


def no_such_resource(plural: str = "", group: str = "") -> ApiError:
    # kubectl reads the details of every such Status, and dies without any.
    return NotFound(
        "the server could not find the requested resource", kind=plural or "unknown", group=group
    )


def refuse_impersonation(headers: Mapping[str, str]) -> None:
    """Refuse to act as another user, in the words for a caller who may not.

    There is one user here and no RBAC: ignoring the headers would answer `kubectl --as=nobody`
    with everything.
    """
    for header, value in headers.items():
        if not header.startswith("impersonate-"):
            continue
        resource, group = _IMPERSONATED.get(header, ("userextras", _AUTHENTICATION))
        if header.startswith("impersonate-extra-"):
            resource = f"userextras/{header.removeprefix('impersonate-extra-')}"
        plural = resource.partition("/")[0]
        qualified = f"{plural}.{group}" if group else plural
        raise Forbidden(
            f'{qualified} "{value}" is forbidden: User "{USER}" cannot impersonate resource '
            f'"{resource}" in API group "{group}" at the cluster scope: not supported here',
            kind=plural,
            group=group,
            name=value,
        )


def not_allowed() -> ApiError:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def already_exists(kind: Kind, name: str) -> ApiError:
    return AlreadyExists(
        f'{kind.resource} "{name}" already exists', kind=kind.plural, group=kind.group, name=name
    )


def conflict(kind: Kind, name: str, why: str = STALE) -> ApiError:
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}',
        kind=kind.plural,
        group=kind.group,
        name=name,
    )


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    return Forbidden(
        f'{kind.resource} "{name}" is forbidden: {why}',
        kind=kind.plural,
        group=kind.group,
        name=name,
        causes=causes,
    )


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> ApiError:
    return _invalid(kind.kind, kind.group, name, causes)


def unversioned(kind: Kind, name: str) -> ApiError:
    """Refuse to replace whatever is there: the client must say what it has seen."""
    why = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    return _invalid(kind.plural, kind.group, name, [why])


def invalid_scale(name: str, causes: Sequence[Cause]) -> ApiError:
    return _invalid("Scale", "autoscaling", name, causes)


def invalid_options(options: str, causes: Sequence[Cause]) -> ApiError:
    """Refuse query parameters; `options` is the type they make up: `CreateOptions`."""
    return _invalid(options, "meta.k8s.io", "", causes)


def _invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    # One complaint may come from two rules; people read it once.
    said = list(dict.fromkeys(f"{c.field}: {c.message}" if c.field else c.message for c in causes))
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    shown = f"{kind}.{group}" if group else kind
    return Invalid(
        f'{shown} "{name}" is invalid: {text}', kind=kind, group=group, name=name, causes=causes
    )


def undecodable(kind: Kind, why: str) -> ApiError:
    return BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
    )


def too_new(asked: int, current: int) -> ApiError:
    """Refuse a resourceVersion from the future."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )
