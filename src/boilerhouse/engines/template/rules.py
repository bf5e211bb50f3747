"""What is wrong with a template: every mistake with its exact path, all at once. Pure.

template ─► faults()         fields that are not in the table, or are the operator's; wrong shapes
class, engine ─► clashes()   names that both templates use
resources ─► excesses()      more than the operator's flags allow

The webhook and the controller ask the same functions, so they say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boilerhouse.engines.names import PREFIX
from boilerhouse.engines.profile import CommandPolicy, Profile
from boilerhouse.engines.template.merge import Layer, split
from boilerhouse.engines.template.quantities import amount
from boilerhouse.engines.template.table import BY_FIELD, Merge, Place, Row, Shape

PATH = "spec.template"
# Volumes that the operator brings.
CONFIG_VOLUME = "engine-config"
DATA_VOLUME = "data"
RUNTIME_VOLUME = "runtime"
RESERVED_VOLUMES = (CONFIG_VOLUME, DATA_VOLUME, RUNTIME_VOLUME)

_OWNED = "is set by the operator"
_UNKNOWN = "is not supported"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake, and the field that it is in."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def faults(template: object, profile: Profile, path: str = PATH) -> list[FieldError]:
    """Return everything that is wrong with one template."""
    return list(_template(template, profile, path))


def _template(template: object, profile: Profile, path: str) -> Iterator[FieldError]:
    if not isinstance(template, Mapping):
        yield FieldError(path, "must be an object")
        return
    for name in template:
        if name not in ("metadata", "spec"):
            yield FieldError(f"{path}.{name}", _UNKNOWN)
    metadata, spec = template.get("metadata"), template.get("spec")
    if metadata is not None:
        yield from _metadata(metadata, f"{path}.metadata")
    if spec is not None:
        yield from _pod(spec, profile, f"{path}.spec")


def _metadata(metadata: object, path: str) -> Iterator[FieldError]:
    yield from _fields(Place.METADATA, metadata, path)
    if not isinstance(metadata, Mapping):
        return
    for name in ("labels", "annotations"):
        entries = metadata.get(name)
        for key in entries if isinstance(entries, Mapping) else ():
            if str(key).startswith(PREFIX):
                yield FieldError(f"{path}.{name}[{key}]", f"keys under {PREFIX} are the operator's")


def _pod(spec: object, profile: Profile, path: str) -> Iterator[FieldError]:
    yield from _fields(Place.POD, spec, path)
    if not isinstance(spec, Mapping):
        return
    for index, volume in enumerate(_objects(spec.get("volumes"))):
        if volume.get("name") in RESERVED_VOLUMES:
            yield FieldError(f"{path}.volumes[{index}].name", f"{volume['name']} is reserved")
    for index, container in enumerate(_objects(spec.get("initContainers"))):
        if container.get("name") == profile.container:
            where = f"{path}.initContainers[{index}].name"
            yield FieldError(where, f"{profile.container} is the server's container")
    yield from _containers(_objects(spec.get("containers")), profile, f"{path}.containers")
    for name in ("containers", "initContainers", "volumes"):
        yield from _named_once(_objects(spec.get(name)), f"{path}.{name}")


def _containers(
    containers: Sequence[Mapping[str, Any]], profile: Profile, path: str
) -> Iterator[FieldError]:
    for container in containers:
        if container.get("name") == profile.container:
            yield from _server(container, profile, f"{path}[{profile.container}]")


def _server(container: Mapping[str, Any], profile: Profile, path: str) -> Iterator[FieldError]:
    fields = {name: value for name, value in container.items() if name != "name"}
    users = profile.command_policy == CommandPolicy.USER
    yield from _fields(Place.SERVER, fields, path, users_command=users)
    reserved = {variable.name for variable in profile.env}
    for index, variable in enumerate(_objects(fields.get("env"))):
        if variable.get("name") in reserved:
            yield FieldError(f"{path}.env[{index}].name", f"{variable['name']} is reserved")
    for index, mount in enumerate(_objects(fields.get("volumeMounts"))):
        if mount.get("name") in RESERVED_VOLUMES:
            yield FieldError(f"{path}.volumeMounts[{index}].name", f"{mount['name']} is reserved")


def _fields(
    place: Place, body: object, path: str, *, users_command: bool = False
) -> Iterator[FieldError]:
    if not isinstance(body, Mapping):
        yield FieldError(path, "must be an object")
        return
    for name, value in body.items():
        # null means the same as absence; some programs write creationTimestamp: null.
        if value is None:
            continue
        row = BY_FIELD[place].get(name)
        if row is None:
            yield FieldError(f"{path}.{name}", _UNKNOWN)
        elif row.merge == Merge.OWNED or (row.merge == Merge.PROFILE and not users_command):
            yield FieldError(f"{path}.{name}", _OWNED)
        else:
            yield from _shape(row, value, f"{path}.{name}")


def _shape(row: Row, value: Any, path: str) -> Iterator[FieldError]:
    match row.shape:
        case Shape.TEXT if not isinstance(value, str):
            yield FieldError(path, "must be a text")
        case Shape.OBJECT if not isinstance(value, Mapping):
            yield FieldError(path, "must be an object")
        case Shape.TEXTS:
            if not isinstance(value, Mapping):
                yield FieldError(path, "must be an object")
                return
            for key, entry in value.items():
                if not isinstance(entry, str):
                    yield FieldError(f"{path}[{key}]", "must be a text")
        case Shape.OBJECTS | Shape.WORDS:
            if not isinstance(value, list):
                yield FieldError(path, "must be a list")
                return
            kind, words = (
                (str, "a text") if row.shape == Shape.WORDS else (dict, "an object")
            )  # JSON has no other mappings
            for index, item in enumerate(value):
                if not isinstance(item, kind):
                    yield FieldError(f"{path}[{index}]", f"must be {words}")
        case Shape.RESOURCES:
            yield from _resources(value, path)


def _resources(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield FieldError(path, "must be an object")
        return
    for name, entries in value.items():
        if name not in ("requests", "limits", "claims"):
            yield FieldError(f"{path}.{name}", _UNKNOWN)
        elif name == "claims":
            continue
        elif not isinstance(entries, Mapping):
            yield FieldError(f"{path}.{name}", "must be an object")
        else:
            for resource, quantity in entries.items():
                if amount(quantity) is None:
                    yield FieldError(f"{path}.{name}.{resource}", "must be a quantity such as 2Gi")


def _named_once(items: Sequence[Mapping[str, Any]], path: str) -> Iterator[FieldError]:
    names: set[object] = set()
    for index, item in enumerate(items):
        name = item.get("name")
        if not isinstance(name, str) or not name:
            yield FieldError(f"{path}[{index}].name", "required")
        elif name in names:
            yield FieldError(f"{path}[{index}].name", f"{name} is there twice")
        names.add(name)


def clashes(
    klass: Mapping[str, Any], engine: Mapping[str, Any], profile: Profile
) -> list[FieldError]:
    """Return the names of an engine's template that its class uses too."""
    below, above = (split(template, profile.container) for template in (klass, engine))
    return [
        FieldError(f"{PATH}.spec.{name}", f"{item} is in the class's template already")
        for name, taken, new in (
            ("containers", _names(below.others), _names(above.others)),
            (
                "initContainers",
                _pod_names(below, "initContainers"),
                _pod_names(above, "initContainers"),
            ),
            ("volumes", _pod_names(below, "volumes"), _pod_names(above, "volumes")),
        )
        for item in new
        if item in taken
    ]


def _names(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(item.get("name")) for item in items]


def _pod_names(layer: Layer, field: str) -> list[str]:
    return _names(layer.pod.get(field) or ())


def _objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list; what is no list, or no object, is blamed by its shape."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a server's container may ask for; None: no bound."""

    cpu: str | None = None
    memory: str | None = None
    ephemeral_storage: str | None = None

    def items(self) -> Iterator[tuple[str, str]]:
        for name, most in (
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.ephemeral_storage),
        ):
            if most is not None:
                yield name, most


def excesses(
    resources: Mapping[str, Any], bounds: Bounds, container: str, klass: str = ""
) -> list[FieldError]:
    """Return what is above the bounds; `klass`: the class that says so, if it is not the engine."""
    source = f" (from the class {klass})" if klass else ""
    found = []
    for kind in ("requests", "limits"):
        asked = resources.get(kind) or {}
        for name, most in bounds.items():
            wanted, limit = amount(asked.get(name)), amount(most)
            if wanted is not None and limit is not None and wanted > limit:
                path = f"{PATH}.spec.containers[{container}].resources.{kind}.{name}"
                found.append(FieldError(path, f"{asked[name]} is more than {most}{source}"))
    return found
