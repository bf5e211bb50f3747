"""Discovery: which groups, versions and resources are served, for clients that ask before they act.

Registry ──► /api /apis /api/v1 /apis/GROUP[/VERSION]   one document each (kubectl's fallback)
         └─► /api /apis as APIGroupDiscoveryList        all in two documents (kubectl's first try)
/version /healthz /livez /readyz                        and who answers

Documents are rendered once per state of the registry and carry an ETag, so a client that has seen
one pays a 304. They are live: a CRD is discoverable as soon as it is served.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from boilerhouse.core.version import version as release
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.negotiation import accepted
from boilerhouse.platform.kube.wire import JSON, Reply, Request

# The Kubernetes minor whose behaviour the contract suite compares us with.
MAJOR, MINOR, PATCH = "1", "34", "4"

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_CHANGE = ["get", "patch", "update"]
_CONNECT = ["create", "get"]
_PROXY = ["create", "delete", "get", "patch", "update"]

# Subresource -> (verbs, (group, version, kind) of its body; None = the kind's own).
_SUBRESOURCES: dict[str, tuple[list[str], tuple[str, str, str] | None]] = {
    "status": (_CHANGE, None),
    "scale": (_CHANGE, ("autoscaling", "v1", "Scale")),
    "binding": (["create"], ("", "v1", "Binding")),
    "eviction": (["create"], ("policy", "v1", "Eviction")),
    "ephemeralcontainers": (_CHANGE, None),
    "resize": (_CHANGE, None),
    "finalize": (["update"], None),
    "log": (["get"], None),
    "exec": (_CONNECT, ("", "v1", "PodExecOptions")),
    "attach": (_CONNECT, ("", "v1", "PodAttachOptions")),
    "portforward": (_CONNECT, ("", "v1", "PodPortForwardOptions")),
    "proxy": (_PROXY, None),
    "token": (["create"], ("authentication.k8s.io", "v1", "TokenRequest")),
}
_PROXY_KINDS = {
    "Pod": "PodProxyOptions",
    "Node": "NodeProxyOptions",
    "Service": "ServiceProxyOptions",
}

_HEALTH = ("/healthz", "/livez", "/readyz")
# Answered without a token, as by a real server: they say nothing about anybody's objects.
OPEN_PATHS = frozenset({*_HEALTH, "/version"})


class Discovery:
    """Answers the paths that describe the server itself."""

    def __init__(self, registry: Registry, unready: Callable[[], Sequence[str]] = tuple) -> None:
        self._registry = registry
        self._unready = unready
        self._rendered: dict[tuple[str, str], Reply] = {}
        self._version = -1

    def answer(self, request: Request) -> Reply | None:
        """Answer a discovery path; None if the path is none, or names what is not served."""
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH:
            return self._health(path)
        if path == "/version":
            return _reply(_version())
        if path != "/" and path not in ("/api", "/apis") and not _GROUP_PATH.fullmatch(path):
            return None
        if request.method not in ("GET", "HEAD"):
            return None
        if self._version != self._registry.version:
            self._rendered.clear()
            self._version = self._registry.version
        form = _aggregated(request) if path in ("/api", "/apis") else ""
        reply = self._rendered.get((path, form))
        if reply is None:
            document = self._document(path, form)
            if document is None:
                return None
            reply = self._rendered[path, form] = _cacheable(document, form)
        return not_modified(request, reply)

    def _health(self, path: str) -> Reply:
        plain = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-cache, private"}
        if path == "/readyz" and (reasons := self._unready()):
            return Reply(503, f"not ready: {'; '.join(reasons)}".encode(), plain)
        return Reply(200, b"ok", plain)

    def _document(self, path: str, form: str) -> dict[str, Any] | None:
        kinds = self._registry.all()
        if form:
            core = path == "/api"
            return _group_discovery_list(form, [k for k in kinds if (k.group == "") == core])
        if path == "/":
            return {"paths": sorted(_paths(kinds))}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        if path == "/apis":
            groups = [_group(name, kinds) for name in _groups(kinds)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        _, root, *names = path.split("/")
        if root == "apis" and len(names) == 1:
            if names[0] not in _groups(kinds):
                return None
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(names[0], kinds)
        group, version = ("", names[0]) if root == "api" else (names[0], names[1])
        served = [k for k in kinds if (k.group, k.version) == (group, version)]
        return _resource_list(served) if served else None


_GROUP_PATH = re.compile(r"/api/[^/]+|/apis/[^/]+(/[^/]+)?")


def not_modified(request: Request, reply: Reply) -> Reply:
    """Answer 304 to a client that shows the ETag of this very reply."""
    tag = reply.headers.get("etag", "")
    shown = [
        t.strip().removeprefix("W/") for t in request.headers.get("if-none-match", "").split(",")
    ]
    if not tag or not (tag in shown or "*" in shown):
        return reply
    kept = {k: v for k, v in reply.headers.items() if k in ("etag", "vary", "cache-control")}
    return Reply(304, b"", kept)


def verbs_of(kind: Kind) -> list[str]:
    """Return what can be done with a kind; namespaces are deleted one by one."""
    return [v for v in VERBS if v != "deletecollection" or kind.resource != "namespaces"]


def version_rank(version: str) -> tuple[int, int, int]:
    """Order versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not found:
        return (3, 0, 0)
    stability = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stability, -int(found[1]), -int(found[3] or 0))


def _aggregated(request: Request) -> str:
    """Return the apidiscovery version the client accepts first, "" for plain documents."""
    for media, wanted in accepted(request.headers.get("accept", "")):
        if media not in (JSON, "*/*", "application/*"):
            continue
        if wanted.get("g") == "apidiscovery.k8s.io" and wanted.get("as") == "APIGroupDiscoveryList":
            if wanted.get("v") in ("v2", "v2beta1"):
                return wanted["v"]
            continue
        return ""
    return ""


def _cacheable(document: dict[str, Any], form: str) -> Reply:
    body = msgspec.json.encode(document)
    kind = f";g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList" if form else ""
    return Reply(
        200,
        body,
        {
            "content-type": JSON + kind,
            "etag": f'"{hashlib.sha256(body).hexdigest()}"',
            "vary": "Accept",
            "cache-control": "public" if form else "no-cache, private",
        },
    )


def _reply(document: dict[str, Any]) -> Reply:
    return Reply(200, msgspec.json.encode(document), {"content-type": JSON})


@lru_cache(maxsize=1)
def _version() -> dict[str, Any]:
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.{PATCH}+boilerhouse",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"Boilerhouse {release()} on Python {platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _paths(kinds: Iterable[Kind]) -> set[str]:
    versions = {f"/apis/{k.group}/{k.version}" if k.group else f"/api/{k.version}" for k in kinds}
    groups = {f"/apis/{k.group}" for k in kinds if k.group}
    return {"/api", "/apis", "/openapi/v3", "/version", *_HEALTH} | versions | groups


def _groups(kinds: Iterable[Kind]) -> list[str]:
    """Return the named groups. Where two groups serve one resource name, kubectl takes the first:
    so those of Kubernetes stand before ours and other people's."""
    names = {k.group for k in kinds if k.group}
    return sorted(names, key=lambda name: ("." in name and not name.endswith(".k8s.io"), name))


def _group(name: str, kinds: Iterable[Kind]) -> dict[str, Any]:
    versions = sorted({k.version for k in kinds if k.group == name}, key=version_rank)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _subresources(kind: Kind) -> list[str]:
    own = (["status"] if kind.status else []) + (["scale"] if kind.scale else [])
    return own + [name for name in kind.subresources if name not in own]


def _body_of(kind: Kind, subresource: str) -> tuple[list[str], tuple[str, str, str]]:
    """Return the verbs of a subresource and the (group, version, kind) of what it exchanges."""
    own = (kind.group, kind.version, kind.kind)
    verbs, exchanged = _SUBRESOURCES.get(subresource, (_CHANGE, None))
    if subresource == "proxy":
        exchanged = ("", "v1", _PROXY_KINDS.get(kind.kind, kind.kind))
    return verbs, exchanged or own


def _resource_list(kinds: list[Kind]) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in kinds:
        resources.append(
            {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": verbs_of(kind),
                **_names(kind),
            }
        )
        for name in _subresources(kind):
            verbs, exchanged = _body_of(kind, name)
            group, version, body = exchanged
            foreign = (group, version) != (kind.group, kind.version)
            resources.append(
                {
                    "name": f"{kind.plural}/{name}",
                    "singularName": "",
                    "namespaced": kind.namespaced,
                    **({"group": group, "version": version} if foreign else {}),
                    "kind": body,
                    "verbs": verbs,
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def _names(kind: Kind) -> dict[str, Any]:
    return {
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
    }


def _group_discovery_list(form: str, kinds: list[Kind]) -> dict[str, Any]:
    names = _groups(kinds) or ([""] if kinds else [])
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [_group_discovery(name, [k for k in kinds if k.group == name]) for name in names],
    }


def _group_discovery(name: str, kinds: list[Kind]) -> dict[str, Any]:
    versions = sorted({k.version for k in kinds}, key=version_rank)
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_resource_discovery(k) for k in kinds if k.version == version],
                "freshness": "Current",
            }
            for version in versions
        ],
    }


def _resource_discovery(kind: Kind) -> dict[str, Any]:
    subresources = [
        {
            "subresource": name,
            "responseKind": dict(zip(("group", "version", "kind"), exchanged, strict=True)),
            "verbs": verbs,
        }
        for name in _subresources(kind)
        for verbs, exchanged in [_body_of(kind, name)]
    ]
    return {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": verbs_of(kind),
        **_names(kind),
        **({"subresources": subresources} if subresources else {}),
    }
