"""Workloads as the API hands them out.

Read as plain data: a spec that is not sound must still be seen, to be told so.
"""

from __future__ import annotations

from boilerhouse.core.names import GROUP, VERSION
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.tenancy.workloads.model import RESOURCE

Workload = Dynamic

WORKLOADS: Resource[Workload] = Resource(GROUP, VERSION, RESOURCE.plural, RESOURCE.kind, Workload)
