"""A container's environment and the $(NAME) in its words.

    envFrom, then env in order ─► variables ─► command, args: $(NAME) replaced

A variable may use those before it. `$(NAME)` of one that is not there stays as it is written, and
`$$` is one dollar sign, so `$$(NAME)` is never replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boilerhouse.embedded.fields.podspec import containers_of
from boilerhouse.embedded.fields.quantity import Quantity, parse
from boilerhouse.embedded.kubelet.objects.references import Missing, References
from boilerhouse.platform.kube.kinds import ObjectMeta

Body = Mapping[str, Any]

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


@dataclass(frozen=True, slots=True)
class PodView:
    """What a container may learn of its own Pod."""

    metadata: ObjectMeta
    spec: Body
    ip: str
    host_ip: str
    capacity: Mapping[str, Quantity]  # the machine's: the limit of what has none


async def environment(
    container: Body, pod: PodView, references: References, image: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a container over those of its image; raises `Missing`."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        variables |= await _imported(source, references)
    for entry in container.get("env", ()):
        if "valueFrom" in entry:
            value = await _value(entry["valueFrom"], container, pod, references)
            if value is not None:
                variables[entry["name"]] = value
        else:
            variables[entry["name"]] = expand(entry.get("value", ""), variables)
    return {**image, **variables}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each $(NAME) by its variable."""

    def replacement(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return variables.get(found[2], found[0])

    return _REFERENCE.sub(replacement, text)


async def _imported(source: Body, references: References) -> dict[str, str]:
    prefix = source.get("prefix", "")
    if "secretRef" in source:
        given, kind = source["secretRef"], "secret"
    else:
        given, kind = source["configMapRef"], "configmap"
    content = await references.content(
        "secret" if kind == "secret" else "configmap",
        given.get("name", ""),
        optional=bool(given.get("optional")),
    )
    # A key that cannot name a variable is left out, as on a real node.
    return {
        prefix + key: value.decode(errors="replace")
        for key, value in content.items()
        if _NAME.fullmatch(prefix + key)
    }


async def _value(source: Body, container: Body, pod: PodView, references: References) -> str | None:
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], container, pod)
    kind = "secretKeyRef" if "secretKeyRef" in source else "configMapKeyRef"
    given = source[kind]
    value = await references.value(
        "secret" if kind == "secretKeyRef" else "configmap",
        given.get("name", ""),
        given["key"],
        optional=bool(given.get("optional")),
    )
    return None if value is None else value.decode(errors="replace")


def field_value(path: str, pod: PodView) -> str:
    """Return a field of the Pod, as fieldRef names it."""
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        of = pod.metadata.labels if subscript[1] == "labels" else pod.metadata.annotations
        return of.get(subscript[2], "")
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.get("nodeName", ""),
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", ""),
        "status.podIP": pod.ip,
        "status.podIPs": pod.ip,
        "status.hostIP": pod.host_ip,
        "status.hostIPs": pod.host_ip,
    }
    if path not in fields:
        raise Missing(f"fieldPath {path} is not supported here")
    return str(fields[path])


def _resource(source: Body, container: Body, pod: PodView) -> str:
    asked = source.get("containerName") or container["name"]
    of = next((one for one in containers_of(pod.spec) if one["name"] == asked), None)
    group, _, resource = source["resource"].partition(".")
    if of is None or group not in ("limits", "requests") or resource not in pod.capacity:
        raise Missing(f"resource {source['resource']} of container {asked} is not known here")
    amounts = of.get("resources", {}).get(group, {})
    amount = parse(str(amounts[resource])) if resource in amounts else None
    if amount is None:
        amount = pod.capacity[resource] if group == "limits" else parse("0")
    divisor = parse(str(source.get("divisor", "1")))
    if not divisor:
        divisor = parse("1")
    return str(-(-amount.nanos // divisor.nanos))
