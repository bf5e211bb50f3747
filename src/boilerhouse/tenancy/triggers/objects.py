"""Triggers as the API hands them out: their settings are looked at as plain data."""

from __future__ import annotations

from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import of
from boilerhouse.tenancy.triggers.model import RESOURCE

TRIGGERS = of(RESOURCE, Dynamic)
