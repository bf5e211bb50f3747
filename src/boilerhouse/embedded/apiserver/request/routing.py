"""From a path to what it names.

/api/v1/namespaces/ns/pods/p/log ──► Target(kind=Pod, namespace="ns", name="p", subresource="log")

Pure: looks at the registry, never at objects. The deprecated `/watch/` prefix is understood, since
old tools still send it.
"""

from __future__ import annotations

import msgspec

from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.refusals import no_such_resource


class Target(msgspec.Struct, frozen=True):
    """What a path names: a collection when `name` is empty."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    # Behind the subresource: the path that pods/proxy forwards, with its leading slash.
    rest: str = ""
    # The path began with /watch/.
    watch: bool = False


def find(registry: Registry, path: str) -> Target | None:
    """Resolve a path below /api or /apis; None when no such group and version is served.

    Raises NotFound when the version exists but not the resource in it.
    """
    parts = path.split("/")  # "", "api", "v1", ...
    if len(parts) > 3 and parts[1] == "api":
        group, version, parts = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis":
        group, version, parts = parts[2], parts[3], parts[4:]
    else:
        return None
    if not parts[0]:
        return None
    watch = parts[0] == "watch" and len(parts) > 1
    if watch:
        parts = parts[1:]
    namespace, nameless = "", False
    # /namespaces/x and /namespaces/x/status are the Namespace itself, all else is inside it.
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _OF_NAMESPACE:
        nameless = not parts[1]
        namespace, parts = parts[1], parts[2:]
    kind = registry.find(group, version, parts[0])
    if kind is None and not registry.has_version(group, version):
        return None
    count = len(parts)
    # `//` where a name belongs: read as no name at all, it would mean every object.
    if kind is None or nameless or (count > 2 and not parts[1]):
        raise no_such_resource(parts[0], group)
    name = parts[1] if count > 1 else ""
    subresource = parts[2] if count > 2 else ""
    rest = "/" + "/".join(parts[3:]) if count > 3 else ""
    if not _sound(kind, namespace, name, subresource, rest):
        raise no_such_resource(parts[0], group)
    return Target(kind, namespace, name, subresource, rest, watch)


_OF_NAMESPACE = ("status", "finalize", "")


def _sound(kind: Kind, namespace: str, name: str, subresource: str, rest: str) -> bool:
    if bool(namespace) != kind.namespaced and (namespace or name):
        return False  # a cluster-scoped kind inside a namespace, or a namespaced name outside one
    if not subresource:
        return not rest
    return _is_part(kind, subresource) and bool(name) and (not rest or subresource == "proxy")


def _is_part(kind: Kind, subresource: str) -> bool:
    if subresource == "status":
        return kind.status or "status" in kind.subresources
    return subresource in kind.subresources or (subresource == "scale" and kind.scale is not None)
