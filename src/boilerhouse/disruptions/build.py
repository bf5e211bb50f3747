"""The PodDisruptionBudget over claimed instances, as a plain dict. Pure.

number of claimed Pods ─► minAvailable: all of them

Nobody stands behind a bare Pod who could say how many there should be, so a share or
`maxUnavailable` means nothing: the number itself has to be written. Warm Pods carry no tenant's
label, hold nothing of anybody's, and may be evicted at any time.
"""

from __future__ import annotations

from typing import Any

from boilerhouse.core import names
from boilerhouse.helper import layout

Body = dict[str, Any]

BUDGET = "disruption-budget"  # value of the label `component`
NAME = "boilerhouse-claimed-instances"


def budget(claimed: int) -> Body:
    """Return the budget that keeps all of so many Pods."""
    return {
        "metadata": {"name": NAME, "labels": {layout.COMPONENT: BUDGET}},
        "spec": {
            "minAvailable": claimed,
            "selector": {
                "matchLabels": {names.MANAGED: "true"},
                "matchExpressions": [{"key": names.TENANT, "operator": "Exists"}],
            },
        },
    }
