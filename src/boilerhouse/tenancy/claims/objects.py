"""Claims as the API hands them out."""

from __future__ import annotations

from boilerhouse.core.names import GROUP, VERSION
from boilerhouse.platform.kube.kinds import Custom
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.tenancy.claims.model import RESOURCE, ClaimSpec, ClaimStatus

Claim = Custom[ClaimSpec, ClaimStatus]

CLAIMS: Resource[Claim] = Resource(GROUP, VERSION, RESOURCE.plural, RESOURCE.kind, Claim)
