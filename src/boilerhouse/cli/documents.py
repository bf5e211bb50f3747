"""Files of objects, as `apply` takes them: YAML or JSON, several documents, Kubernetes' shape.

text ─► documents ─► Applied (where it goes, what is sent) | Failure naming the document
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from boilerhouse.cli.rest import Failure, segment
from boilerhouse.core.names import API_VERSION, GROUP

Body = dict[str, Any]

OUR_KINDS = {
    "BoilerhouseWorkload": "workloads",
    "BoilerhousePool": "pools",
    "BoilerhouseClaim": "claims",
    "BoilerhouseTrigger": "triggers",
}
SETTINGS = {"Secret": "secrets", "ConfigMap": "configmaps"}
_SETTING_FIELDS = ("data", "stringData", "binaryData", "type", "immutable")
_ABOUT = ("labels", "annotations")
# What a server has filled in is there in whatever was fetched from one; it is its own affair.
_SERVERS = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)


@dataclass(frozen=True, slots=True)
class Applied:
    """One object on its way: the collection it belongs to, its name, the body of the PUT."""

    plural: str
    name: str
    body: Body

    @property
    def path(self) -> str:
        return f"{self.plural}/{segment(self.name)}"

    def __str__(self) -> str:
        return f"{self.plural.removesuffix('s')}/{self.name}"


def shaped(plural: str, found: Any) -> Any:
    """Write what REST shows of our kinds in Kubernetes' shape, so that `apply` takes it again.

    Several are a List. What cannot be applied (instances, Secrets without their values) stays.
    """
    kind = next((kind for kind, one in OUR_KINDS.items() if one == plural), None)
    if kind is None:
        return found
    if isinstance(found, list):
        items = [shaped(plural, item) for item in found]
        return {"apiVersion": "v1", "kind": "List", "items": items}
    # Our own annotations say what is going on with this very object: another must not have them.
    about = {
        "labels": found.get("labels") or {},
        "annotations": {
            key: value
            for key, value in (found.get("annotations") or {}).items()
            if not key.startswith(f"{GROUP}/")
        },
    }
    server = {
        "creationTimestamp": found.get("createdAt"),
        "generation": found.get("generation"),
        "resourceVersion": found.get("resourceVersion"),
    }
    told = {key: value for key, value in (about | server).items() if value}
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": found["name"], **told}}
    return body | {key: found[key] for key in ("spec", "status") if found.get(key)}


def read(text: str, source: str) -> list[Applied]:
    """Read every document of a text; `Failure` names the first that cannot be applied."""
    try:
        documents = list(yaml.safe_load_all(text))  # JSON is YAML
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        problem = getattr(error, "problem", None) or error
        raise Failure(f"{source}{line}: not YAML or JSON: {problem}") from None
    found = [
        _applied(body, f"{source}, document {number}")
        for number, document in enumerate(documents, 1)
        for body in _flat(document, f"{source}, document {number}")
    ]
    if not found:
        raise Failure(f"{source}: there is no object in it")
    return found


def _flat(document: Any, where: str) -> Iterator[Any]:
    """Open lists: what `kubectl get -o yaml` writes."""
    if document is None:
        return
    if isinstance(document, dict) and document.get("kind") == "List":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise Failure(f"{where}: the items of a List are a list")
        for item in items:
            yield from _flat(item, where)
        return
    yield document


def _applied(body: Any, where: str) -> Applied:
    if not isinstance(body, dict):
        raise Failure(f"{where}: not an object, but {type(body).__name__}")
    kind, version, meta = body.get("kind"), body.get("apiVersion"), body.get("metadata")
    if not isinstance(meta, dict) or meta.get("name") in (None, ""):
        raise Failure(f"{where}: metadata.name is missing")
    if not isinstance(meta["name"], str):
        raise Failure(f"{where}: metadata.name is not a string, but {meta['name']!r}: quote it")
    if meta.get("namespace") not in (None, "boilerhouse"):
        raise Failure(
            f"{where}: namespace {meta['namespace']!r}: the API serves one namespace;"
            " leave it out, or use kubectl"
        )
    about = {key: meta[key] for key in _ABOUT if meta.get(key)}
    name = meta["name"]
    if kind in OUR_KINDS:
        _check_version(version, API_VERSION, kind, where)
        if not isinstance(body.get("spec"), dict):
            raise Failure(f"{where}: {kind} {name} has no spec")
        return Applied(OUR_KINDS[kind], name, {"spec": body["spec"], **about})
    if kind in SETTINGS:
        _check_version(version, "v1", kind, where)
        _check_setting(body, meta, f"{where}: {kind} {name}")
        fields = {key: body[key] for key in _SETTING_FIELDS if body.get(key)}
        return Applied(SETTINGS[kind], name, fields | about)
    known = ", ".join([*OUR_KINDS, *SETTINGS])
    raise Failure(f"{where}: kind {kind!r} cannot be applied here, only {known}; use kubectl")


def _check_version(given: object, wanted: str, kind: str, where: str) -> None:
    if given != wanted:
        raise Failure(f"{where}: {kind} has apiVersion {wanted}, not {given!r}")


def _check_setting(body: Body, meta: Body, what: str) -> None:
    """Refuse what the API would not keep: nothing is left out in silence."""
    known = {"apiVersion", "kind", "metadata", *_SETTING_FIELDS}
    about = {"name", "namespace", *_ABOUT, *_SERVERS}
    unknown = [str(key) for key in body if key not in known]
    unknown += [f"metadata.{key}" for key in meta if key not in about]
    if unknown:
        fields = ", ".join(unknown)
        raise Failure(f"{what}: {fields} cannot be applied here; leave it out, or use kubectl")
