"""What is written for a class, as plain data. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.core.difference import difference
from boilerhouse.engines.classes.model import ClassStatus
from boilerhouse.engines.classes.seen import ClassSeen
from boilerhouse.engines.names import CLASS_FINALIZER

Body = dict[str, Any]


def finalizers_patch(klass: ClassSeen, *, held: bool) -> Body:
    """Build the merge patch that puts our finalizer on, or takes it, and no other, off."""
    others = [one for one in klass.finalizers if one != CLASS_FINALIZER]
    wanted = [*others, CLASS_FINALIZER] if held else others
    return {"metadata": {**_as_seen(klass), "finalizers": wanted or None}}


def status_patch(klass: ClassSeen, status: ClassStatus) -> Body:
    """Build the merge patch from the status as seen to the one that was decided."""
    changes = difference(msgspec.to_builtins(klass.status), msgspec.to_builtins(status))
    bound = {"boundEngines": status.bound_engines}  # zero is a default, and is told
    return {"metadata": _as_seen(klass), "status": {**changes, **bound}}


def _as_seen(klass: ClassSeen) -> Body:
    return {"uid": klass.uid, "resourceVersion": klass.version}
