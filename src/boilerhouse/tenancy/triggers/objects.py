"""Triggers as the API hands them out: their settings are looked at as plain data."""

from __future__ import annotations

from boilerhouse.core.names import GROUP, VERSION
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.tenancy.triggers.model import RESOURCE

TRIGGERS: Resource[Dynamic] = Resource(GROUP, VERSION, RESOURCE.plural, RESOURCE.kind, Dynamic)
