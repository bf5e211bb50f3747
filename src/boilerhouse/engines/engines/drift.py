"""What a generation is made of, input by input, and which of them changed. Pure.

spec, class, instance ─► inputs ─► Wanted.hash ─┬─► status, when a number is given to it
                                                └─► annotations of the StatefulSet

Inputs are what users and others say, before anything is rendered. A newer operator that renders the
same inputs differently therefore replaces nothing; the StatefulSet says which renderer wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from boilerhouse.engines.template.hashes import digest
from boilerhouse.engines.template.merge import Layer
from boilerhouse.engines.template.quantities import amount
from boilerhouse.engines.template.table import TABLE, Merge, Shape

Inputs = tuple[tuple[str, str], ...]

_SHOWN = 5  # inputs named in a sentence


def inputs(values: Mapping[str, Any], template: Layer) -> Inputs:
    """Return the name and hash of every input that says something, in order."""
    hashes = {name: digest(value) for name, value in values.items()}
    for row in TABLE:
        value = template.at(row.place).get(row.field)
        if row.merge == Merge.SERVERS:
            value = list(template.others)
        elif row.shape == Shape.RESOURCES and value:
            value = _amounts(value)
        hashes[f"template.{row.path}"] = digest(value)
    return tuple(sorted((name, value) for name, value in hashes.items() if value))


def changed(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> str:
    """Name the inputs that differ, as the end of a sentence."""
    old, new = dict(before), dict(after)
    names = [name for name in sorted(old | new) if old.get(name) != new.get(name)]
    if not old or not names:
        return "what it is made of"  # nothing was stamped yet to compare with
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def written(stamp: Inputs) -> str:
    """Spell inputs as an annotation."""
    return json.dumps(dict(stamp), sort_keys=True, separators=(",", ":"))


def read(annotation: str | None) -> Inputs:
    """Read inputs from an annotation; nothing if it is none of ours."""
    try:
        stamp = json.loads(annotation or "{}")
    except ValueError:
        return ()
    if not isinstance(stamp, dict):
        return ()
    return tuple(sorted((str(name), str(value)) for name, value in stamp.items()))


def _amounts(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Make one value of quantities that are the same number: 1, "1" and "1000m"."""
    return {
        kind: (
            {name: str(amount(quantity)) for name, quantity in entries.items()}
            if isinstance(entries, Mapping)
            else entries
        )
        for kind, entries in resources.items()
        if entries
    }
