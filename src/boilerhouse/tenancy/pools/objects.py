"""Pools as the API hands them out."""

from __future__ import annotations

from boilerhouse.core.names import GROUP, VERSION
from boilerhouse.platform.kube.kinds import Custom
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.tenancy.pools.model import RESOURCE, PoolSpec, PoolStatus

Pool = Custom[PoolSpec, PoolStatus]

POOLS: Resource[Pool] = Resource(GROUP, VERSION, RESOURCE.plural, RESOURCE.kind, Pool)
