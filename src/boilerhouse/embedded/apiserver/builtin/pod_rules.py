"""What a Pod's spec has to obey, in a Pod and in a template alike.

The schema has checked types, enums and what is not supported here; this is the rest: names that
must be there, be legal, be unique or refer to something.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from boilerhouse.embedded.apiserver.builtin.honoured import REFUSED
from boilerhouse.embedded.apiserver.builtin.rules import (
    config_key,
    dns_label,
    dns_subdomain,
    labels,
    named_port,
    not_negative,
    port_number,
    resource_map,
)
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_MAX_ID = 2**31 - 1
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_NO_SOURCES = REFUSED["io.k8s.api.core.v1.Volume"]
# An environment variable's name: printable ASCII without "=".
_VARIABLE = re.compile(r"[ -<>-~]+")


def template_causes(template: Body, field: str, claimed: Container[str] = ()) -> list[Cause]:
    """Check a template's labels and its spec; `claimed` are volumes that come from elsewhere."""
    found = template.get("metadata", {}).get("labels", {})
    return labels(f"{field}.metadata.labels", found) + spec_causes(
        template["spec"], f"{field}.spec", claimed
    )


def spec_causes(spec: Body, field: str = "spec", claimed: Container[str] = ()) -> list[Cause]:
    """Return everything wrong with a Pod spec."""
    causes: list[Cause] = []
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes", ())):
        causes += _volume(f"{field}.volumes[{index}]", volume, volumes)
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, ())):
            where = f"{field}.{group}[{index}]"
            causes += _container(where, container, names)
            causes += _mounts(where, container, volumes, claimed)
            causes += _lifecycle(where, container, init=group == "initContainers")
    causes += _port_names(spec, field)
    causes += not_negative(
        f"{field}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"]
    )
    causes += _security(f"{field}.securityContext", spec["securityContext"])
    for name, check in (
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("nodeName", dns_subdomain),
        ("serviceAccountName", dns_subdomain),
    ):
        if name in spec:
            causes += check(f"{field}.{name}", spec[name])
    for index, toleration in enumerate(spec.get("tolerations", ())):
        causes += _toleration(f"{field}.tolerations[{index}]", toleration)
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        if not secret.get("name"):
            causes.append(required(f"{field}.imagePullSecrets[{index}].name"))
    return causes


def _unique_name(field: str, name: str, seen: set[str]) -> list[Cause]:
    if not name:
        return [required(f"{field}.name")]
    causes = dns_label(f"{field}.name", name)
    if name in seen:
        causes.append(duplicate(f"{field}.name", name))
    seen.add(name)
    return causes


def _volume(field: str, volume: Body, seen: set[str]) -> list[Cause]:
    causes = _unique_name(field, volume["name"], seen)
    sources = [name for name in volume if name != "name"]
    # The schema lets pass what is empty; an empty source is a volume all the same.
    for source in sources:
        if source in _NO_SOURCES:
            words = f"not supported here: {_NO_SOURCES[source]}"
            causes.append(forbidden_field(f"{field}.{source}", words))
    for extra in sources[1:]:
        causes.append(
            forbidden_field(f"{field}.{extra}", "may not specify more than 1 volume type")
        )
    for source in ("secret", "configMap"):
        if source not in volume:
            continue
        where = f"{field}.{source}"
        key = "secretName" if source == "secret" else "name"
        if not volume[source].get(key):
            causes.append(required(f"{where}.{key}"))
        causes += _mode(f"{where}.defaultMode", volume[source]["defaultMode"])
        for index, item in enumerate(volume[source].get("items", ())):
            causes += _item(f"{where}.items[{index}]", item)
    claim = volume.get("persistentVolumeClaim")
    if claim is not None and not claim["claimName"]:
        causes.append(required(f"{field}.persistentVolumeClaim.claimName"))
    limit = volume.get("emptyDir", {}).get("sizeLimit", "0")
    if parse(limit).nanos < 0:
        words = "SizeLimit field must be a valid resource quantity"
        causes.append(forbidden_field(f"{field}.emptyDir.sizeLimit", words))
    return causes


def _mode(field: str, value: int) -> list[Cause]:
    if 0 <= value <= 0o777:
        return []
    words = "must be a number between 0 and 0777 (octal), both inclusive"
    return [invalid_value(field, value, words)]


def _item(field: str, item: Body) -> list[Cause]:
    causes = [required(f"{field}.key")] if not item["key"] else []
    path = item["path"]
    if not path:
        causes.append(required(f"{field}.path"))
    elif path.startswith("/"):
        causes.append(invalid_value(f"{field}.path", path, "must be a relative path"))
    elif ".." in path.split("/") or path.startswith(".."):
        causes.append(invalid_value(f"{field}.path", path, "must not contain '..'"))
    if "mode" in item:
        causes += _mode(f"{field}.mode", item["mode"])
    return causes


def _container(field: str, container: Body, seen: set[str]) -> list[Cause]:
    causes = _unique_name(field, container["name"], seen)
    image = container.get("image", "")
    if not image:
        causes.append(required(f"{field}.image"))
    elif image != image.strip():
        words = "must not have leading or trailing whitespace"
        causes.append(invalid_value(f"{field}.image", image, words))
    for index, port in enumerate(container.get("ports", ())):
        where = f"{field}.ports[{index}]"
        if not port["containerPort"]:
            causes.append(required(f"{where}.containerPort"))
        else:
            causes += port_number(f"{where}.containerPort", port["containerPort"])
        if port.get("name"):
            causes += named_port(f"{where}.name", port["name"])
    for index, variable in enumerate(container.get("env", ())):
        causes += _variable(f"{field}.env[{index}]", variable)
    for source in container.get("envFrom", ()):
        causes += _variables_from(f"{field}.envFrom", source)
    for name in _PROBES:
        if name in container:
            causes += _probe(f"{field}.{name}", container[name], name)
    causes += _resources(f"{field}.resources", container["resources"])
    return causes + _security(f"{field}.securityContext", container.get("securityContext", {}))


def _lifecycle(field: str, container: Body, *, init: bool) -> list[Cause]:
    """Containers restart as the Pod says; only an init container may be a sidecar."""
    policy = container.get("restartPolicy")
    if policy is None:
        if not init:
            return []
        words = "may not be set for init containers without restartPolicy=Always"
        return [forbidden_field(f"{field}.{name}", words) for name in _PROBES if name in container]
    if not init:
        words = "may not be set for non-init containers"
        return [forbidden_field(f"{field}.restartPolicy", words)]
    if policy != "Always":
        return [unsupported_value(f"{field}.restartPolicy", policy, ["Always"])]
    return []


def _port_names(spec: Body, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, container in enumerate(spec.get("containers", ())):
        seen: set[str] = set()
        for number, port in enumerate(container.get("ports", ())):
            name = port.get("name")
            if name and name in seen:
                where = f"{field}.containers[{index}].ports[{number}].name"
                causes.append(duplicate(where, name))
            seen.add(name or "")
    return causes


def _variable(field: str, variable: Body) -> list[Cause]:
    name = variable["name"]
    if not name:
        return [required(f"{field}.name")]
    causes: list[Cause] = []
    if not _VARIABLE.fullmatch(name):
        words = "a valid environment variable name has only printable ASCII characters, no '='"
        causes.append(invalid_value(f"{field}.name", name, words))
    source = variable.get("valueFrom")
    if source is None:
        return causes
    where = f"{field}.valueFrom"
    if variable.get("value"):
        words = "may not be specified when `value` is not empty"
        causes.append(invalid_value(where, "", words))
    if len(source) != 1:
        words = (
            "may not have more than one field specified at a time"
            if source
            else "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
            "`secretKeyRef`"
        )
        causes.append(invalid_value(where, "", words))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            causes += dns_subdomain(f"{where}.{kind}.name", source[kind].get("name", ""))
            if not source[kind]["key"]:
                causes.append(required(f"{where}.{kind}.key"))
            else:
                causes += config_key(f"{where}.{kind}.key", source[kind]["key"])
    return causes + _field_reference(f"{where}.fieldRef.fieldPath", source.get("fieldRef"))


_FIELD_PATHS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
     "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)  # fmt: skip
_KEYED_PATH = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")


def _field_reference(field: str, reference: Body | None) -> list[Cause]:
    if reference is None:
        return []
    path = reference["fieldPath"]
    if not path:
        return [required(field)]
    if path in _FIELD_PATHS or _KEYED_PATH.fullmatch(path):
        return []
    words = f"error converting fieldPath: field label not supported: {path}"
    return [invalid_value(field, path, words)]


def _variables_from(field: str, source: Body) -> list[Cause]:
    kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
    if len(kinds) != 1:
        words = (
            "may not have more than one field specified at a time"
            if kinds
            else "must specify one of: `configMapRef` or `secretRef`"
        )
        return [invalid_value(field, "", words)]
    return dns_subdomain(f"{field}.{kinds[0]}.name", source[kinds[0]].get("name", ""))


def _probe(field: str, probe: Body, kind: str) -> list[Cause]:
    causes: list[Cause] = []
    actions = [name for name in _ACTIONS if name in probe]
    if not actions:
        causes.append(required(field, "must specify a handler type"))
    causes += [
        forbidden_field(f"{field}.{extra}", "may not specify more than 1 handler type")
        for extra in actions[1:]
    ]
    if "exec" in probe and not probe["exec"].get("command"):
        causes.append(required(f"{field}.exec.command"))
    for name in ("httpGet", "tcpSocket"):
        if name in probe:
            port = probe[name]["port"]
            where = f"{field}.{name}.port"
            causes += port_number(where, port) if isinstance(port, int) else named_port(where, port)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"):
        causes += not_negative(f"{field}.{name}", probe.get(name, 0))
    if kind != "readinessProbe" and probe["successThreshold"] != 1:
        causes.append(
            invalid_value(f"{field}.successThreshold", probe["successThreshold"], "must be 1")
        )
    return causes


def _resources(field: str, resources: Body) -> list[Cause]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    causes = resource_map(f"{field}.limits", limits) + resource_map(f"{field}.requests", requests)
    for part, found in (("limits", limits), ("requests", requests)):
        for name in found:
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                words = "must be a standard resource for containers"
                causes.append(invalid_value(f"{field}.{part}[{name}]", name, words))
    for name, value in requests.items():
        if name in limits and parse(value) > parse(limits[name]):
            words = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", value, words))
    return causes


def _mounts(
    field: str, container: Body, volumes: set[str], claimed: Container[str]
) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{field}.volumeMounts[{index}]"
        name, path = mount["name"], mount["mountPath"]
        if not name:
            yield required(f"{where}.name")
        elif name not in volumes and name not in claimed:
            yield Cause("FieldValueNotFound", f'Not found: "{name}"', f"{where}.name")
        if not path:
            yield required(f"{where}.mountPath")
        elif path in seen:
            yield invalid_value(f"{where}.mountPath", path, "must be unique")
        seen.add(path)
        inner = mount.get("subPath", "")
        if inner.startswith("/"):
            yield invalid_value(f"{field}.volumeMounts.subPath", inner, "must be a relative path")
        elif ".." in inner.split("/"):
            yield invalid_value(f"{field}.volumeMounts.subPath", inner, "must not contain '..'")


def _security(field: str, context: Body) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        if name in context and not 0 <= context[name] <= _MAX_ID:
            words = f"must be between 0 and {_MAX_ID}, inclusive"
            causes.append(invalid_value(f"{field}.{name}", context[name], words))
    return causes


def _toleration(field: str, toleration: Body) -> list[Cause]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    causes: list[Cause] = []
    if key:
        causes += labels(f"{field}.key", {key: ""})
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and '
        causes.append(invalid_value(f"{field}.operator", operator, words + 'all keys"'))
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid_value(f"{field}.effect", toleration.get("effect", ""), words))
    if operator == "Exists" and toleration.get("value"):
        words = "value must be empty when `operator` is 'Exists'"
        causes.append(invalid_value(f"{field}.operator", toleration, words))
    return causes
