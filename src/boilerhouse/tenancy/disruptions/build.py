"""The PodDisruptionBudgets, as plain dicts. Pure.

number of claimed Pods              ─► all of them are to stay
some of them on the helper's node   ─► so is the helper, without whom they cannot be saved

Nobody stands behind a bare Pod who could say how many there should be, so a share or
`maxUnavailable` means nothing: the number itself has to be written. Warm Pods carry no tenant's
label, hold nothing of anybody's, and may be evicted at any time. So may the helper from a node
without tenants: it comes back on another.
"""

from __future__ import annotations

from typing import Any

from boilerhouse.core import names
from boilerhouse.node.helper import layout

Body = dict[str, Any]

BUDGET = "disruption-budget"  # value of the label `component`
INSTANCES = "boilerhouse-claimed-instances"
HELPER = "boilerhouse-snapshot-helper"
BUDGETS = (INSTANCES, HELPER)


def budget(name: str, *, claimed: int, beside_helper: int) -> Body | None:
    """Return a budget by its name; None if there should be none.

    `claimed` Pods there are, `beside_helper` of them on the helper's node.
    """
    if name == INSTANCES and claimed:
        tenants = {"key": names.TENANT, "operator": "Exists"}
        everyone = {"matchLabels": {names.MANAGED: "true"}, "matchExpressions": [tenants]}
        return _budget(name, claimed, everyone)
    if name == HELPER and beside_helper:
        return _budget(name, 1, {"matchLabels": {layout.COMPONENT: layout.HELPER}})
    return None


def _budget(name: str, number: int, selector: Body) -> Body:
    return {
        "metadata": {"name": name, "labels": {layout.COMPONENT: BUDGET}},
        "spec": {"minAvailable": number, "selector": selector},
    }
