"""Claims as the API hands them out."""

from __future__ import annotations

from boilerhouse.platform.kube.kinds import Custom
from boilerhouse.platform.kube.resources import of
from boilerhouse.tenancy.claims.model import RESOURCE, ClaimSpec, ClaimStatus

Claim = Custom[ClaimSpec, ClaimStatus]

CLAIMS = of(RESOURCE, Claim)
