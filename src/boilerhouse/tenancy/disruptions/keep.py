"""Which PodDisruptionBudgets a namespace needs: over claimed instances, and over the helper.

Pods (claimed, or no more; the helper's) ─┐
informer of the budgets ──────────────────┴─► a moment later: counted ─► Keeper

So `kubectl drain` is refused an instance with a tenant's files in it (429) until the operator,
which sees that the node is cordoned (cordons.py), has saved and removed it by itself; and
is refused the snapshot helper for as long as there are tenants on that node to be saved.

The numbers follow the claims by a moment, at most one write a second: claims do not wait for them.
An instance that is evicted within that moment is saved within its grace, as one that somebody
deletes. Too high a number, after an instance has gone, only refuses for a moment longer.

A cluster that does not let us write budgets says so in the log of each try; what is evicted there
is saved within its grace, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from boilerhouse.core import names
from boilerhouse.core.errors import Retry
from boilerhouse.node.helper import layout
from boilerhouse.platform.kube.cache import Change
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic, Pod
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.disruptions import build

EVERY = timedelta(seconds=1)  # what happens to Pods within this time is written together

_ANYWHERE = ""  # all claimed Pods, beside those of each node


class Budgets:
    """Counts what the budgets cover, by informers of the instances and of the helper's Pod."""

    def __init__(self, client: Client, pods: Informer[Pod], helper: Informer[Pod]) -> None:
        self._namespace = client.namespace
        self._pods = pods
        self._helper = helper
        self._claimed = pods.index(_claimed_at)

    def wanted(self, name: str) -> build.Body | None:
        """Return a budget as it should be now; None if there should be none."""
        if not (self._pods.synced.is_set() and self._helper.synced.is_set()):
            raise Retry("the Pods are not listed yet")
        helper = self._helper.get(self._namespace, layout.POD)
        node = "" if helper is None else helper.spec.node_name
        return build.budget(
            name,
            claimed=self._claimed.count(_ANYWHERE),
            beside_helper=self._claimed.count(node) if node else 0,
        )


def counts(change: Change[Pod]) -> bool:
    """Whether a budget may be another after this change of an instance."""
    return _claimed_at(change.old) != _claimed_at(change.new)


def spec_changed(change: Change[Dynamic]) -> Iterable[Key]:
    """Hear of what others do to a budget, and not of each figure that the cluster notes on it."""
    old, new = change.old, change.new
    return () if old is not None and new is not None and old.spec == new.spec else (change.key,)


def _claimed_at(pod: Pod | None) -> list[str]:
    """Say where a Pod counts that the budget covers and that is there to stay."""
    if (
        pod is None
        or names.TENANT not in pod.metadata.labels
        or pod.metadata.deletion_timestamp is not None
        or pod.status.phase in ("Succeeded", "Failed")
    ):
        return []
    return [_ANYWHERE, pod.spec.node_name] if pod.spec.node_name else [_ANYWHERE]
