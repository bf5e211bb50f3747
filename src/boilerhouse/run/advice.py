"""What `kubectl apply` is told of objects that are accepted and cannot work here.

object written ─► advise ─► Warning headers, which kubectl prints; and an Event where nobody looks

The API server accepts what its schema allows. Whether it can work is the operator's to say, in the
status, which kubectl does not show; and of other namespaces than ours it never says anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from boilerhouse.core import names
from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.platform.kube.events import Events
from boilerhouse.platform.kube.kinds import Bare
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.triggers.decide import NOT_BUILT
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from boilerhouse.tenancy.workloads import checks
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from boilerhouse.tenancy.workloads.platform import Platform

KINDS: tuple[Resource[Any], ...] = (WORKLOADS, POOLS, CLAIMS, TRIGGERS)
_BY_KIND = {resource.kind: resource for resource in KINDS}


@dataclass(frozen=True, slots=True)
class Advice:
    """Advises on our kinds; `namespace` is the only one that is looked after."""

    namespace: str
    platform: Platform
    events: Events

    def __call__(self, kind: Kind, body: Mapping[str, Any]) -> Iterator[str]:
        """Say what is wrong with an object that was written."""
        resource = _BY_KIND.get(kind.kind) if kind.group == names.GROUP else None
        if resource is None:
            return
        meta = body["metadata"]
        if meta.get("namespace") != self.namespace:
            words = not_watched(meta.get("namespace", ""), self.namespace)
            if "resourceVersion" in meta:  # not of a dry run
                item = msgspec.convert(body, Bare)
                self.events.tell(resource, item, "NotWatched", words, type="Warning")
            yield words
        elif resource is TRIGGERS:
            yield NOT_BUILT
        elif resource is WORKLOADS and "deletionTimestamp" not in meta:
            yield from self._of_workload(body.get("spec", {}))

    def _of_workload(self, spec: Mapping[str, Any]) -> Iterator[str]:
        yield from checks.faults(spec)
        readable = checks.readable(spec)
        if readable is not None:
            yield from self.platform.missing(readable)
        if self.platform.unenforced():
            yield f"limits of memory and CPU are not enforced here: {self.platform.unenforced()}"


def not_watched(namespace: str, ours: str) -> str:
    """Say that nothing will happen to an object."""
    return (
        f"nothing looks after namespace {namespace}: `boilerhouse up` works in namespace {ours}"
        " only, and this object will stay as it is"
    )
