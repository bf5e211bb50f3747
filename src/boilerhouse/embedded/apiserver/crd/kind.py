"""From a CustomResourceDefinition to a Kind that can be served.

CRD ──► default_crd, HOOKS (status, validate) ──► store ──► kind_from_crd ──► Registry

A definition is judged when it is written (rules.py), so that whatever is stored can be served.
Names that another kind already has do not make it wrong: it is stored, and says in its conditions
that it is not served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from boilerhouse.core.clock import Clock, SystemClock, rfc3339
from boilerhouse.embedded.apiserver.crd.compiled import built
from boilerhouse.embedded.apiserver.crd.rules import crd_causes
from boilerhouse.embedded.apiserver.kind import Body, Column, Hooks, Kind, ScalePaths
from boilerhouse.embedded.fields.fieldpath import reader, text_reader
from boilerhouse.platform.kube.status import Cause, invalid_value

RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"
# Holds a deleted definition back until its objects are gone.
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_AGE: Final = Column(
    "Age", type="date", description="When it was made", path=".metadata.creationTimestamp"
)


def kind_from_crd(body: Mapping[str, Any]) -> Kind:
    """Return the kind that an accepted definition describes, in its storage version."""
    spec = body["spec"]
    names = spec["names"]
    version = next(each for each in spec["versions"] if each.get("storage"))
    openapi = version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    schema, rules = built(openapi)
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        schema=schema,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        columns=_columns(version),
        selectable={
            field["jsonPath"].removeprefix("."): text_reader(field["jsonPath"])
            for field in version.get("selectableFields") or ()
        },
        hooks=Hooks(validate=_scale_values(_scale(subresources.get("scale")))),
        rules=rules or None,
        custom=True,
    )


def established(body: Mapping[str, Any]) -> bool:
    """Tell whether a stored definition is to be served."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def default_crd(body: Body) -> None:
    """Fill in what follows from the rest: singular, listKind, conversion, stored versions."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = body.setdefault("status", {})
    if not status.get("storedVersions"):
        storage = [v.get("name", "") for v in spec.get("versions") or () if v.get("storage")]
        status["storedVersions"] = storage[:1]


def settle_names(
    body: Body, others: Iterable[Mapping[str, Any]] = (), clock: Clock | None = None
) -> None:
    """Write acceptedNames and the conditions NamesAccepted and Established.

    `others` are the other stored definitions; those of the same group may hold a name already.
    """
    spec, status = body["spec"], dict(body.get("status", {}))  # a copy: it may be the stored one's
    body["status"] = status
    held = [
        (other.get("status") or {}).get("acceptedNames") or {}
        for other in others
        if other["spec"]["group"] == spec["group"]
        and other["metadata"]["name"] != body["metadata"]["name"]
    ]
    wanted, accepted = spec["names"], dict(status.get("acceptedNames") or {})
    conflict = _accept(wanted, accepted, held)
    accepted |= {key: wanted[key] for key in ("categories",) if key in wanted}
    status["acceptedNames"] = accepted or {"kind": "", "plural": ""}
    status.setdefault("storedVersions", [])
    now = rfc3339((clock or SystemClock()).now())
    if conflict:
        reason, name = conflict
        _condition(status, "NamesAccepted", "False", reason, f'"{name}" is already in use', now)
        if not established(body):
            message = "not all names are accepted"
            _condition(status, "Established", "False", "NotAccepted", message, now)
        return
    _condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    message = "the initial names have been accepted"
    _condition(status, "Established", "True", "InitialNamesAccepted", message, now)


def _accept(
    wanted: Mapping[str, Any], accepted: dict[str, Any], held: list[Mapping[str, Any]]
) -> tuple[str, str] | None:
    """Take over every name that is free; return the last conflict as (reason, name)."""
    resources = {
        name
        for other in held
        for name in (
            other.get("plural"), other.get("singular"), *(other.get("shortNames") or ()),
        )
    }  # fmt: skip
    kinds = {name for other in held for name in (other.get("kind"), other.get("listKind"))}
    conflict = None
    for key, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        if key not in wanted:
            accepted.pop(key, None)
            continue
        value = wanted[key]
        asked = value if isinstance(value, list) else [value]
        mine = accepted.get(key)
        mine = mine if isinstance(mine, list) else [mine]
        clash = [name for name in asked if name in taken and name not in mine]
        if clash:
            conflict = (reason, clash[0])
        else:
            accepted[key] = value
    return conflict


def _condition(
    status: dict[str, Any], kind: str, value: str, reason: str, message: str, now: str
) -> None:
    conditions = [dict(each) for each in status.get("conditions") or ()]
    found = next((each for each in conditions if each["type"] == kind), None)
    if found is None:
        found = {"type": kind}
        conditions.append(found)
    if found.get("status") != value:
        found["lastTransitionTime"] = now
    found |= {"status": value, "reason": reason, "message": message}
    status["conditions"] = conditions


def _on_create(body: Body) -> None:
    body.pop("status", None)
    finalizers = body["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)


def _on_update(body: Body, old: Body) -> None:
    """Remember every version that objects were ever stored in."""
    status, spec = body.get("status"), body.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    if not isinstance(versions, list):
        return  # called before the shape is judged, which refuses it
    storage = [v.get("name") for v in versions if isinstance(v, dict) and v.get("storage")]
    if isinstance(status, dict) and storage and storage[0] not in status.get("storedVersions", ()):
        versions = [*status.get("storedVersions", ()), storage[0]]
        body["status"] = {**status, "storedVersions": versions}


def _validate(body: Body, old: Body | None) -> list[Cause]:
    return crd_causes(body, old)


# For the kind CustomResourceDefinition itself. The names are settled by whoever knows the others.
HOOKS: Final = Hooks(on_create=_on_create, on_update=_on_update, validate=_validate)


def _scale(written: Mapping[str, Any] | None) -> ScalePaths | None:
    if written is None:
        return None
    return ScalePaths(
        written["specReplicasPath"],
        written["statusReplicasPath"],
        written.get("labelSelectorPath") or "",
    )


def _scale_values(paths: ScalePaths | None) -> Callable[[Body, Body | None], list[Cause]]:
    """Return the check that what a scale would show is a count, whatever the schema allows."""
    counts = () if paths is None else (paths.spec_replicas, paths.status_replicas)

    def check(body: Body, _old: Body | None) -> list[Cause]:
        causes: list[Cause] = []
        for path in counts:
            value = reader(path)(body)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                causes.append(invalid_value(path, value, "must be an integer"))
            elif not 0 <= value < 2**31:
                causes.append(invalid_value(path, value, "must be from 0 to 2147483647"))
        return causes

    return check


def _columns(version: Mapping[str, Any]) -> tuple[Column, ...]:
    written = version.get("additionalPrinterColumns")
    if not written:
        return (_AGE,)
    return tuple(
        Column(
            column["name"],
            type=column["type"],
            format=column.get("format") or "",
            description=column.get("description") or "",
            priority=column.get("priority") or 0,
            path=column["jsonPath"],
        )
        for column in written
    )
