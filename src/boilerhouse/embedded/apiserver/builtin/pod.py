"""Pods: what the server adds at birth, and defaults.

create ─► born() (tolerations, priority, account) ─► default() ─► pod_rules, pod_change
"""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin.podspec import default_requests, default_spec, quality
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.status import Forbidden

# How long a Pod stays on a node that is in trouble, unless it says so itself.
_EVICTION_SECONDS = 300
_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def born(body: Body) -> None:
    """Do what admission does to a new Pod. Types are not yet known to be right."""
    body["status"] = {"phase": "Pending"}
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    if type(spec.setdefault("priority", 0)) is int and spec["priority"] != 0:
        raise Forbidden(
            f'pods "{body["metadata"].get("name", "")}" is forbidden: the integer value of '
            f"priority ({spec['priority']}) must not be provided in pod spec: "
            "there are no priority classes here",
            kind="pods",
        )
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    if not spec.get("serviceAccountName") and not spec.get("serviceAccount"):
        spec["serviceAccountName"] = "default"
    _tolerate(spec)


def _tolerate(spec: Body) -> None:
    tolerations = spec.get("tolerations")
    tolerations = [] if tolerations is None else tolerations
    if isinstance(tolerations, list):
        spec["tolerations"] = [*tolerations, *_missing(tolerations)]


def _missing(tolerations: list[object]) -> list[Body]:
    found: list[Body] = []
    for trouble in _TROUBLES:
        covered = any(
            isinstance(one, dict)
            and one.get("key") in (trouble, None, "")
            and one.get("effect") in ("NoExecute", None, "")
            for one in tolerations
        )
        if not covered:
            found.append(
                {
                    "key": trouble,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_SECONDS,
                }
            )
    return found


def carried(body: Body, old: Body) -> None:
    """Keep what the server chose at birth and a client need not repeat."""
    spec, before = body.get("spec"), old.get("spec", {})
    if spec is not before and isinstance(spec, dict):
        for name in ("priority", "preemptionPolicy"):
            if name in before:
                spec.setdefault(name, before[name])
        _tolerate(spec)


def default(body: Body) -> None:
    spec = body["spec"]
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # at once, but not forced
    default_requests(spec)
    status = body["status"]
    status.setdefault("phase", "Pending")
    # Requests and limits do not change, so this can be said again at every write.
    status["qosClass"] = quality(spec)
