"""ResourceQuotas: who may have how much in a namespace, enforced when it is written.

write ──► charges(old, new) ──► over a limit: 403
                            └─► new `status.used` of each quota it touches, committed with the write

`status.used` is the truth. It is counted from scratch when a quota is made or its limits change
and moves with every write after that; see writing.py for why it stays exact.
"""

from __future__ import annotations

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.policy.usage import best_effort, usage
from boilerhouse.embedded.apiserver.registry import Registry
from boilerhouse.embedded.apiserver.request.refusals import forbidden
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Store
from boilerhouse.embedded.fields.podspec import Amounts, containers_of, quantities
from boilerhouse.embedded.fields.quantity import ZERO
from boilerhouse.platform.kube.status import Cause, forbidden_field, invalid_value

RESOURCE = "resourcequotas"
SCOPES = ("BestEffort", "NotBestEffort", "NotTerminating", "Terminating")
_KNOWN_SCOPES = (*SCOPES, "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass")
# Quota name -> (which list of a container, which resource) that every container must then state.
_STATED = {
    f"{prefix}{name}": (which, name)
    for name in ("cpu", "memory", "ephemeral-storage")
    for prefix, which in (("", "requests"), ("requests.", "requests"), ("limits.", "limits"))
}


class Quotas:
    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def charges(self, kind: Kind, key: Key, old: Body | None, new: Body | None) -> list[Put]:
        """Return the quotas as they are after a write, or refuse the write for one of them.

        One that is written itself is measured anew.
        """
        if not key.namespace:
            return []
        if new is not None and kind.resource == RESOURCE:
            self._measure(kind, new)
        puts: list[Put] = []
        for stored in self._store.scan_head(RESOURCE, key.namespace):
            if stored.key == key:
                continue  # the write is about this quota itself
            changed = _charge(kind, key, stored.body, old, new)
            if changed is not None:
                puts.append(Put(stored.key, changed))
        return puts

    def _measure(self, kind: Kind, body: Body) -> None:
        """Count what a quota that is being written covers, and put it in its status."""
        hard = body.get("spec", {}).get("hard", {})
        status = body.get("status", {})
        if status.get("hard") == hard and status.get("used", {}).keys() == hard.keys():
            return
        used: Amounts = dict.fromkeys(hard, ZERO)
        namespace = body["metadata"]["namespace"]
        for other in self._registry.all():
            if not other.namespaced or not self._concerns(other, hard):
                continue
            for stored in self._store.scan_head(other.resource, namespace):
                for name, amount in _covered(other, body, stored.body).items():
                    used[name] += amount
        itself = Key(RESOURCE, namespace, body["metadata"]["name"])
        if self._store.head(itself) is None:
            for name, amount in _covered(kind, body, body).items():
                used[name] += amount
        body["status"] = {
            "hard": dict(hard),
            "used": {name: str(amount) for name, amount in sorted(used.items())},
        }

    @staticmethod
    def _concerns(kind: Kind, hard: Body) -> bool:
        if f"count/{kind.resource}" in hard or kind.resource in hard:
            return True
        if kind.resource == "pods":
            return any(name in _STATED or name.startswith("requests.") for name in hard)
        names = {"persistentvolumeclaims": "storage", "services": "services."}
        part = names.get(kind.resource)
        return part is not None and any(part in name for name in hard)


def refused_scopes(body: Body) -> list[Cause]:
    """Return a cause for each scope that is not honoured here, rather than not honour it."""
    spec = body.get("spec", {})
    causes: list[Cause] = []
    scopes = spec.get("scopes", [])
    for scope in scopes:
        if scope not in _KNOWN_SCOPES:
            causes.append(invalid_value("spec.scopes", scopes, "unsupported scope"))
        elif scope not in SCOPES:
            why = f"not supported here: the scope {scope}"
            causes.append(forbidden_field("spec.scopes", why))
    if spec.get("scopeSelector"):
        why = "not supported here: use spec.scopes"
        causes.append(forbidden_field("spec.scopeSelector", why))
    return causes


def _charge(kind: Kind, key: Key, quota: Body, old: Body | None, new: Body | None) -> Body | None:
    name = quota["metadata"]["name"]
    hard = quantities(quota.get("spec", {}).get("hard", {}))
    if new is not None and old is None and kind.resource == "pods" and _scoped(quota, new):
        _check_stated(kind, key, name, hard, new)
    before = _covered(kind, quota, old) if old is not None else {}
    after = _covered(kind, quota, new) if new is not None else {}
    if not before and not after:
        return None
    status = quota.get("status", {})
    used = quantities(status.get("used", {}))
    deltas = {
        item: after.get(item, ZERO) - before.get(item, ZERO) for item in before.keys() | after
    }
    over = [
        item for item, delta in deltas.items()
        if delta > ZERO and used.get(item, ZERO) + delta > hard[item]
    ]  # fmt: skip
    if over:
        raise _exceeded(kind, key, name, over, deltas, used, hard)
    moved = {item: delta for item, delta in deltas.items() if delta}
    if not moved:
        return None
    result = {item: str(amount) for item, amount in used.items()}
    for item, delta in moved.items():
        result[item] = str(max(ZERO, used.get(item, ZERO) + delta))
    return {**quota, "status": {**status, "used": dict(sorted(result.items()))}}


def _covered(kind: Kind, quota: Body, body: Body) -> Amounts:
    """Return what of an object's usage this quota limits."""
    spec = quota.get("spec", {})
    hard = spec.get("hard", {})
    if spec.get("scopes") and (kind.resource != "pods" or not _scoped(quota, body)):
        return {}
    return {name: amount for name, amount in usage(kind, body).items() if name in hard}


def _scoped(quota: Body, pod: Body) -> bool:
    return all(_in_scope(scope, pod) for scope in quota.get("spec", {}).get("scopes", ()))


def _in_scope(scope: str, pod: Body) -> bool:
    if scope in ("Terminating", "NotTerminating"):
        bounded = pod.get("spec", {}).get("activeDeadlineSeconds") is not None
        return bounded == (scope == "Terminating")
    return best_effort(pod) == (scope == "BestEffort")


def _check_stated(kind: Kind, key: Key, quota: str, hard: Amounts, pod: Body) -> None:
    """Refuse a Pod that leaves open what the quota counts: it could not be counted."""
    missing: dict[str, list[str]] = {}
    for item in sorted(hard):
        if item not in _STATED:
            continue
        which, resource = _STATED[item]
        for container in containers_of(pod.get("spec", {})):
            if resource not in container.get("resources", {}).get(which, {}):
                missing.setdefault(item, []).append(container.get("name", ""))
    if missing:
        words = "; ".join(f"{item} for: {','.join(names)}" for item, names in missing.items())
        raise forbidden(kind, key.name, f"failed quota: {quota}: must specify {words}")


def _exceeded(
    kind: Kind,
    key: Key,
    quota: str,
    over: list[str],
    deltas: Amounts,
    used: Amounts,
    hard: Amounts,
) -> Exception:
    def listed(amounts: Amounts) -> str:
        return ",".join(f"{item}={amounts.get(item, ZERO)}" for item in sorted(over))

    return forbidden(
        kind,
        key.name,
        f"exceeded quota: {quota}, requested: {listed(deltas)}, used: {listed(used)}, "
        f"limited: {listed(hard)}",
    )
