"""What is wrong with a workload's spec, beyond what the API server could refuse. Pure.

spec as JSON ─┬─► faults()      not sound, asks for what is not built, or for nothing to run
              └─► secrets()     which Secrets it needs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from boilerhouse.core.problems import problems
from boilerhouse.tenancy.workloads.images import HOST
from boilerhouse.tenancy.workloads.model import WorkloadSpec
from boilerhouse.tenancy.workloads.network import Access


def faults(raw: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each thing that only a change of the spec can cure."""
    found, spec = problems(WorkloadSpec, raw), readable(raw)
    return found if spec is None else [*found, *_not_built(spec), *_nothing_to_run(spec)]


def readable(raw: Mapping[str, Any]) -> WorkloadSpec | None:
    """Return a spec as its Struct, though rules may not hold; None if it cannot be one."""
    try:
        return msgspec.convert(raw, WorkloadSpec)
    except msgspec.ValidationError:
        return None


def secrets(spec: WorkloadSpec) -> list[tuple[str, str]]:
    """Return the (name, key) of every Secret entry that the spec refers to."""
    return [
        (header.value_from.secret_key_ref.name, header.value_from.secret_key_ref.key)
        for credential in spec.network.credentials
        for header in credential.headers
        if header.value_from is not None
    ]


def _not_built(spec: WorkloadSpec) -> Iterator[str]:
    """Name what the schema knows and this release does not do: refused, never ignored."""
    if spec.image.dockerfile is not None:
        yield "spec.image.dockerfile: images are not built yet: import one and use spec.image.ref"
    if spec.network.access == Access.RESTRICTED:
        yield "spec.network.access: restricted is not built yet: use none or unrestricted"
    if spec.network.credentials:
        yield "spec.network.credentials: adding headers to requests is not built yet"
    if spec.filesystem.encrypt_overlays:
        yield "spec.filesystem.encryptOverlays: encryption of saved files is not built yet"


def _nothing_to_run(spec: WorkloadSpec) -> Iterator[str]:
    """Other images may have a command of their own, which is known when they are there."""
    given = spec.entrypoint
    if spec.image.ref == HOST and (given is None or not (given.cmd or given.args)):
        yield "spec.entrypoint: image host has no command of its own: say what to run as cmd"
