"""What is wrong with an instance's spec, so that only another spec can help. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from boilerhouse.core.problems import problems
from boilerhouse.engines.instances.model import InstanceSpec
from boilerhouse.engines.profile import Profile
from boilerhouse.engines.template import rules
from boilerhouse.engines.template.merge import split

CONTAINER = "metadata"
PATH = "spec.metadata.template"
# The service's own container is the operator's but for these.
_FREE = ("image", "imagePullPolicy", "resources")

_PROFILE = msgspec.convert({"container": CONTAINER, "env": []}, Profile)


def faults(raw: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each thing that only a change of the spec can cure."""
    found = problems(InstanceSpec, raw)
    if found:
        return found
    spec = msgspec.convert(raw, InstanceSpec)
    return [*map(str, template_faults(spec.metadata.template)), *_contradictions(spec)]


def template_faults(template: object) -> list[rules.FieldError]:
    """Return what the template of the metadata service says and may not."""
    found = rules.faults(template, _PROFILE, PATH)
    if found or not isinstance(template, Mapping):
        return found
    where = f"{PATH}.spec.containers[{CONTAINER}]"
    return [
        rules.FieldError(f"{where}.{name}", "is set by the operator")
        for name, value in split(template, CONTAINER).server.items()
        if value is not None and name not in _FREE
    ]


def _contradictions(spec: InstanceSpec) -> Iterator[str]:
    metadata = spec.metadata
    if metadata.endpoint is not None and metadata.postgres is not None:
        yield "spec.metadata.postgres: has no use for a metadata service that is there already"
