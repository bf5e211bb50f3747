"""What is wrong with a class. Pure: the webhook and the controller ask the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from boilerhouse.core.problems import problems
from boilerhouse.engines.classes.model import ClassSpec
from boilerhouse.engines.profile import FIREBOLT, Profile
from boilerhouse.engines.template.rules import FieldError, faults


def unusable(raw: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a spec as it came from JSON, apart from its template."""
    return problems(ClassSpec, raw)


def refused(raw: Mapping[str, Any]) -> list[FieldError]:
    """Return what the template says and may not, by the class's own profile."""
    return faults(raw.get("template", {}), _profile(raw.get("profile")))


def _profile(raw: object) -> Profile:
    """Read a profile; one that cannot be read is blamed by `unusable`."""
    if raw is None:
        return FIREBOLT
    try:
        return msgspec.convert(raw, Profile)
    except msgspec.ValidationError:
        return FIREBOLT
