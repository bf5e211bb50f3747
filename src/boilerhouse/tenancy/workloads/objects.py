"""Workloads as the API hands them out.

Read as plain data: a spec that is not sound must still be seen, to be told so.
"""

from __future__ import annotations

from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import of
from boilerhouse.tenancy.workloads.model import RESOURCE

Workload = Dynamic

WORKLOADS = of(RESOURCE, Workload)
