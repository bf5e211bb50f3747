"""The table of a Pod template: each field that there is a rule for, and the rule.

rows ─┬─► merge.py   how the layers of a template become one
      ├─► rules.py   what a template may say; what is not in the table is refused
      └─► page()     the same for people
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Which object of a Pod template a field belongs to."""

    METADATA = "metadata"
    POD = "spec"
    SERVER = "spec.containers[engine]"


class Merge(StrEnum):
    """How a field of several layers becomes one value. The layers: operator < class < engine."""

    REPLACE = "the uppermost layer that sets it"
    FILL = "the uppermost layer that sets it, filled up with the operator's"
    MAP = "all entries, the uppermost layer's of each key"
    CONCAT = "all items: the operator's, then the class's, then the engine's"
    SERVERS = "the server's container field by field, then the class's, then the engine's others"
    PROFILE = "the operator's, or the template's if the profile's commandPolicy is user"
    OWNED = "the operator's: refused in a template"


class Shape(StrEnum):
    """What a value must look like."""

    TEXT = "a text"
    OBJECT = "an object"
    TEXTS = "an object of texts"
    OBJECTS = "a list of objects"
    WORDS = "a list of texts"
    RESOURCES = "requests, limits and claims"
    ANY = "anything"


@dataclass(frozen=True, slots=True)
class Row:
    """One field of a template."""

    place: Place
    field: str
    merge: Merge
    shape: Shape

    @property
    def path(self) -> str:
        return f"{self.place}.{self.field}"


def _rows(place: Place, merge: Merge, shape: Shape, *fields: str) -> tuple[Row, ...]:
    return tuple(Row(place, field, merge, shape) for field in fields)


_METADATA, _POD, _SERVER = Place
_M, _S = Merge, Shape

TABLE: tuple[Row, ...] = (
    *_rows(_METADATA, _M.MAP, _S.TEXTS, "labels", "annotations"),
    *_rows(
        _METADATA, _M.OWNED, _S.ANY,
        "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "selfLink",
        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
        "finalizers", "managedFields",
    ),
    *_rows(
        _POD, _M.REPLACE, _S.TEXT,
        "serviceAccountName", "priorityClassName", "runtimeClassName", "schedulerName",
        "dnsPolicy", "preemptionPolicy",
    ),
    *_rows(_POD, _M.REPLACE, _S.OBJECT, "affinity", "dnsConfig", "os", "overhead"),
    *_rows(_POD, _M.FILL, _S.OBJECT, "securityContext"),
    *_rows(_POD, _M.MAP, _S.TEXTS, "nodeSelector"),
    *_rows(
        _POD, _M.CONCAT, _S.OBJECTS,
        "tolerations", "topologySpreadConstraints", "readinessGates", "resourceClaims",
        "hostAliases", "imagePullSecrets", "initContainers", "volumes",
    ),
    *_rows(_POD, _M.SERVERS, _S.OBJECTS, "containers"),
    *_rows(
        _POD, _M.OWNED, _S.ANY,
        "terminationGracePeriodSeconds", "subdomain", "hostname", "restartPolicy",
        "activeDeadlineSeconds", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace",
        "hostUsers",
    ),
    *_rows(
        _SERVER, _M.REPLACE, _S.TEXT,
        "image", "imagePullPolicy", "workingDir", "terminationMessagePath",
        "terminationMessagePolicy",
    ),
    *_rows(_SERVER, _M.REPLACE, _S.RESOURCES, "resources"),
    *_rows(_SERVER, _M.REPLACE, _S.OBJECT, "securityContext", "lifecycle"),
    *_rows(
        _SERVER, _M.CONCAT, _S.OBJECTS,
        "env", "envFrom", "volumeMounts", "volumeDevices", "resizePolicy",
    ),
    *_rows(_SERVER, _M.PROFILE, _S.WORDS, "command", "args"),
    *_rows(
        _SERVER, _M.OWNED, _S.ANY,
        "ports", "livenessProbe", "readinessProbe", "startupProbe", "restartPolicy", "stdin",
        "stdinOnce", "tty",
    ),
)  # fmt: skip

BY_FIELD: dict[Place, dict[str, Row]] = {
    place: {row.field: row for row in TABLE if row.place == place} for place in Place
}


def page() -> str:
    """Write the table for people."""
    lines = ["| field | value |", "|---|---|"]
    lines += [f"| `{row.path}` | {row.merge} |" for row in TABLE]
    return "\n".join(lines) + "\n"
