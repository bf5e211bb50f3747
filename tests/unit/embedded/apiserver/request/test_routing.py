"""Paths and Accept headers: what they name, what is refused."""

from __future__ import annotations

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.negotiation import Rendering, negotiate
from boilerhouse.embedded.apiserver.request.routing import find
from boilerhouse.platform.kube.status import NotAcceptable, NotFound
from tests.unit.embedded.apiserver.kinds import WIDGET

REGISTRY = Registry([*builtin.kinds(), WIDGET])


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/v1/pods", ("pods", "", "", "", "")),
        ("/api/v1/namespaces/ns/pods", ("pods", "ns", "", "", "")),
        ("/api/v1/namespaces/ns/pods/", ("pods", "ns", "", "", "")),
        ("/api/v1/namespaces/ns/pods/p", ("pods", "ns", "p", "", "")),
        ("/api/v1/namespaces/ns/pods/p/log", ("pods", "ns", "p", "log", "")),
        ("/api/v1/namespaces/ns/pods/p:80/proxy/a/b", ("pods", "ns", "p:80", "proxy", "/a/b")),
        ("/api/v1/namespaces", ("namespaces", "", "", "", "")),
        ("/api/v1/namespaces/ns", ("namespaces", "", "ns", "", "")),
        ("/api/v1/namespaces/ns/finalize", ("namespaces", "", "ns", "finalize", "")),
        ("/api/v1/namespaces/ns/status", ("namespaces", "", "ns", "status", "")),
        (
            "/apis/demo.dev/v1alpha1/namespaces/ns/widgets/w/scale",
            ("widgets.demo.dev", "ns", "w", "scale", ""),
        ),
    ],
)
def test_what_a_path_names(path: str, named: tuple[str, ...]) -> None:
    """Resource, namespace, name, subresource and the rest, each in its place."""
    target = find(REGISTRY, path)
    assert target is not None
    assert (
        target.kind.resource, target.namespace, target.name, target.subresource, target.rest
    ) == named  # fmt: skip


def test_the_old_watch_prefix() -> None:
    """Old tools ask for a watch by path."""
    target = find(REGISTRY, "/api/v1/watch/namespaces/ns/pods/p")
    assert target is not None
    assert (target.watch, target.namespace, target.name) == (True, "ns", "p")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nonsense",
        "/api/v1/namespaces/ns/nonsense",
        "/api/v1/pods/p",
        "/api/v1/namespaces/ns/nodes",
        "/api/v1/namespaces/ns/pods/p/nonsense",
        "/api/v1/namespaces/ns/pods/p/log/x",
        "/api/v1/namespaces/ns/configmaps/c/status",
        "/api/v1/namespaces/ns/configmaps/c/scale",
    ],
)
def test_what_no_version_has_is_not_found(path: str) -> None:
    """The version is served, the resource in it is not."""
    with pytest.raises(NotFound):
        find(REGISTRY, path)


@pytest.mark.parametrize("path", ["/", "/api", "/api/v2/pods", "/apis/nowhere.dev/v1/x", "/x/y/z"])
def test_what_is_no_version_is_nothing(path: str) -> None:
    """The caller may have another idea; otherwise it is no page of ours."""
    assert find(REGISTRY, path) is None


@pytest.mark.parametrize(
    ("accept", "rendering"),
    [
        ("", Rendering()),
        ("*/*", Rendering()),
        ("application/json", Rendering()),
        ("application/vnd.kubernetes.protobuf,application/json", Rendering()),
        ("application/yaml", Rendering("application/yaml")),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Rendering("application/json", "Table", "v1"),
        ),
        (
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Rendering("application/json", "Table", "v1beta1"),
        ),
        ("application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/json", Rendering()),
    ],
)
def test_the_first_form_that_is_spoken_wins(accept: str, rendering: Rendering) -> None:
    """Clients list what they can read, best first."""
    assert negotiate(accept) == rendering


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_forms_nobody_speaks_are_not_acceptable(accept: str) -> None:
    """406 rather than something the client did not ask for."""
    with pytest.raises(NotAcceptable):
        negotiate(accept)
