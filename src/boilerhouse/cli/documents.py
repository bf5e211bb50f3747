"""Files of objects, as `apply` takes them: YAML or JSON, several documents, Kubernetes' shape.

text ─► documents ─► Applied (where it goes, what is sent) | Failure naming the document
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from boilerhouse.cli.rest import Failure, segment
from boilerhouse.core.names import API_VERSION

Body = dict[str, Any]

OUR_KINDS = {
    "BoilerhouseWorkload": "workloads",
    "BoilerhousePool": "pools",
    "BoilerhouseClaim": "claims",
    "BoilerhouseTrigger": "triggers",
}
SETTINGS = {"Secret": "secrets", "ConfigMap": "configmaps"}
_SETTING_FIELDS = ("data", "stringData", "binaryData", "type")


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
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise Failure(f"{where}: metadata.name is missing")
    if meta.get("namespace") not in (None, "boilerhouse"):
        raise Failure(
            f"{where}: namespace {meta['namespace']!r}: the API serves one namespace;"
            " leave it out, or use kubectl"
        )
    about = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
    name = meta["name"]
    if kind in OUR_KINDS:
        _check_version(version, API_VERSION, kind, where)
        if not isinstance(body.get("spec"), dict):
            raise Failure(f"{where}: {kind} {name} has no spec")
        return Applied(OUR_KINDS[kind], name, {"spec": body["spec"], **about})
    if kind in SETTINGS:
        _check_version(version, "v1", kind, where)
        fields = {key: body[key] for key in _SETTING_FIELDS if body.get(key)}
        return Applied(SETTINGS[kind], name, fields | about)
    known = ", ".join([*OUR_KINDS, *SETTINGS])
    raise Failure(f"{where}: kind {kind!r} cannot be applied here, only {known}; use kubectl")


def _check_version(given: object, wanted: str, kind: str, where: str) -> None:
    if given != wanted:
        raise Failure(f"{where}: {kind} has apiVersion {wanted}, not {given!r}")
