"""Defaults of a Pod's spec, in a Pod and in the template of a StatefulSet alike.

Runs after the shape has settled, so types are right and empty values are gone: what is absent here
was absent or empty in what the client sent.
"""

from __future__ import annotations

import re
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.podspec import containers_of

_FILE_MODE = 0o644


def default_spec(spec: Body) -> None:
    """Fill in what every Pod spec gets, wherever it stands."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]  # the old name of the same field
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def default_requests(spec: Body) -> None:
    """A resource that is limited and not requested is requested up to its limit. Pods only."""
    for container in containers_of(spec):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_container(container: Body) -> None:
    if "imagePullPolicy" not in container:
        latest = _tag(container.get("image", "")) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _tag(image: str) -> str:
    """Return the tag of an image reference; nothing said means latest, a digest needs none."""
    if not image:
        return ""
    name, _, digest = image.partition("@")
    path, slash, last = name.rpartition("/")
    repository, colon, tag = last.partition(":")
    if not _REPOSITORY.fullmatch(path + slash + repository):
        return ""  # no reference at all: whatever runs it will say so
    return tag if colon else "" if digest else "latest"


# A registry's host may have capital letters, the rest of a reference not.
_REPOSITORY = re.compile(r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*")


def _default_probe(probe: Body) -> None:
    for name, value in _PROBE:
        probe.setdefault(name, value)
    action = probe.get("httpGet")
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


_PROBE = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)


def _default_volume(volume: Body) -> None:
    if len(volume) == 1:  # a name and no source
        volume["emptyDir"] = {}
    for source in ("secret", "configMap"):
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)


def quality(spec: Body) -> str:
    """Return the quality of service class: how sure the Pod can be of its CPU and memory."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    guaranteed = True
    for container in containers_of(spec):
        resources = container["resources"]
        wanted = {k: v for k, v in resources.get("requests", {}).items() if k in _COMPUTE}
        limited = {k: v for k, v in resources.get("limits", {}).items() if k in _COMPUTE}
        wanted = {k: v for k, v in wanted.items() if v != "0"}
        limited = {k: v for k, v in limited.items() if v != "0"}
        requests |= wanted
        limits |= limited
        guaranteed = guaranteed and limited.keys() == _COMPUTE and wanted == limited
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


_COMPUTE = {"cpu", "memory"}
