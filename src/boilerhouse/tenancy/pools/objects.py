"""Pools as the API hands them out."""

from __future__ import annotations

from boilerhouse.platform.kube.kinds import Custom
from boilerhouse.platform.kube.resources import of
from boilerhouse.tenancy.pools.model import RESOURCE, PoolSpec, PoolStatus

Pool = Custom[PoolSpec, PoolStatus]

POOLS = of(RESOURCE, Pool)
