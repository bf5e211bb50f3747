"""What the embedded API knows of one resource: names, schema, hooks, columns, selectable fields.

builtin.kinds() ─┐
                 ├─► Kind ─► registry ─► server, discovery, openapi, table
CRD objects ─────┘

A `Kind` is a value: the verbs ask it, it never acts. Built-in kinds and those made of a
CustomResourceDefinition are the same type, so no verb has to know which it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from boilerhouse.embedded.apiserver.cel.rules import Rules
    from boilerhouse.embedded.apiserver.schemas.schema import Baseline, Schema
    from boilerhouse.platform.kube.status import Cause

Body = dict[str, Any]

# Which rule a name follows: most are DNS subdomains; namespaces DNS labels; Services labels that
# start with a letter.
NameRule = Literal["subdomain", "label", "label1035"]


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column. Exactly one of `path` (JSONPath, as CRDs write it) and `cell` is set."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""
    cell: Callable[[Body, datetime], Any] | None = None


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows (dotted paths with a leading dot)."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


def _default_nothing(_body: Body, _baseline: Baseline) -> None:
    """Change nothing."""


def leave(_body: Body) -> None:
    """Change nothing."""


def carry_nothing(_body: Body, _old: Body) -> None:
    """Change nothing."""


def accept(_body: Body, _old: Body | None) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a built-in kind does beyond its schema, in place.

    On an update the body may share what it has of the stored one, at any depth: a hook writes to
    the body itself, and to what it has made sure is not shared.
    """

    # Fill in defaults that a schema cannot express. Runs on create and on update, before validate;
    # what the body shares with the second has been through it, and is left alone.
    default: Callable[[Body, Baseline], None] = _default_nothing
    # Clear what a client may not set at birth (status), set what the server does (phase Pending).
    on_create: Callable[[Body], None] = leave
    # (new, old): carry over what a client leaves out and may not change (a Service's clusterIP).
    on_update: Callable[[Body, Body], None] = carry_nothing
    # (new, old or None): everything wrong with the object, or with the change.
    validate: Callable[[Body, Body | None], list[Cause]] = accept


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    schema: Schema
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # Has a status subresource: plain writes ignore .status, status writes ignore all else.
    status: bool = False
    scale: ScalePaths | None = None
    # Further subresources, for routing and discovery: "binding", "eviction", "finalize", ...
    subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    hooks: Hooks = field(default_factory=Hooks)
    # Field-selector path -> how to read it as a string. metadata.name and metadata.namespace are
    # selectable for every kind and need not be listed.
    selectable: Mapping[str, Callable[[Body], str]] = field(default_factory=dict)
    # Strategic-merge table (patch.py); None = strategic merge is refused, as for real CRDs.
    merge_keys: Mapping[str, Any] | None = None
    rules: Rules | None = None
    name_rule: NameRule = "subdomain"
    # metadata.generation is kept: 1 at birth, +1 when anything but metadata and status changes.
    generation: bool = True
    # PUT without resourceVersion overwrites (most built-ins) or is refused (custom resources).
    unconditional_update: bool = False
    # PUT of an absent object creates it (Leases, Events, Services, LimitRanges), else 404.
    create_on_update: bool = False
    # Made of a CustomResourceDefinition.
    custom: bool = False
    # Objects stored before this revision are read through the schema, which may have changed since.
    since: int = 0

    # The key of this kind's objects in the store, and its name in errors. Asked for all the time,
    # as the next one is, and so made once.
    resource: str = field(init=False)
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "api_version", version)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"
