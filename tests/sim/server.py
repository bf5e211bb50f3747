"""An API server small enough to be asked about everything after every write.

Objects, resourceVersions, finalizers, preconditions and patches as Kubernetes has them; nothing
else. Each write is told to `watchers` in order and to `witness`, which checks the invariants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from boilerhouse.core.clock import rfc3339
from boilerhouse.embedded.fields.patch import merge
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, Forbidden, NotFound

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
    """One change: what it was about, before and after; None is absence."""

    actor: str
    plural: str
    name: str
    before: Body | None
    after: Body | None
    status: bool = False


@dataclass
class SimServer:
    """`refuse` says why a Pod may not be created; empty lets it be."""

    witness: Callable[[Write], None] = lambda write: None
    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    log: list[tuple[str, str, Body]] = field(default_factory=list)  # (event type, plural, object)
    revision: int = 0
    refuse: str = ""
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __post_init__(self) -> None:
        self._uids = itertools.count(1)

    def all(self, plural: str) -> list[Body]:
        return [body for (kind, _), body in sorted(self.objects.items()) if kind == plural]

    def get(self, plural: str, name: str) -> Body:
        try:
            return self.objects[plural, name]
        except KeyError:
            raise NotFound(f"{plural} {name} not found") from None

    def create(self, actor: str, plural: str, body: Body) -> Body:
        name = body["metadata"]["name"]
        if (plural, name) in self.objects:
            raise AlreadyExists(f"{plural} {name} already exists")
        if plural == "pods" and self.refuse:
            raise Forbidden(self.refuse)
        made = deepcopy(body)
        made["metadata"] |= {
            "namespace": "" if plural == "nodes" else "sim",
            "uid": f"{plural[0]}{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": rfc3339(self.now),
        }
        if plural.startswith("boilerhouse"):
            initial = {"claims": "Pending", "pools": "Degraded", "workloads": "Creating"}
            made["status"] = {"phase": initial[plural.removeprefix("boilerhouse")]}
        return self._put(actor, plural, name, None, made)

    def merge(self, actor: str, plural: str, name: str, patch: Body, sub: str = "") -> Body:
        before = self.get(plural, name)
        meta = patch.get("metadata", {})
        wanted = (meta.get("uid", before["metadata"]["uid"]), meta.get("resourceVersion"))
        now = (before["metadata"]["uid"], before["metadata"]["resourceVersion"])
        if wanted[0] != now[0] or wanted[1] not in (None, now[1]):
            raise Conflict(f"{plural} {name} has changed")
        after = merge(before, patch)
        if sub == "status":
            after = {**before, "status": after.get("status", {})}
        else:
            after["status"] = before.get("status", {})
        return self.change(actor, plural, name, before, after, status=sub == "status")

    def delete(
        self, actor: str, plural: str, name: str, uid: str, version: str, grace: int | None
    ) -> Body | None:
        before = self.get(plural, name)
        meta = before["metadata"]
        if uid not in ("", meta["uid"]) or version not in ("", meta["resourceVersion"]):
            raise Conflict(f"{plural} {name} has changed")
        lingers = bool(meta.get("finalizers")) or (plural == "pods" and grace != 0)
        if not lingers:
            self._remove(actor, plural, name, before)
            return None
        if "deletionTimestamp" in meta:
            return before
        after = deepcopy(before)
        after["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        after["metadata"]["deletionGracePeriodSeconds"] = 30 if grace is None else grace
        return self._put(actor, plural, name, before, after)

    def change(
        self, actor: str, plural: str, name: str, before: Body, after: Body, status: bool = False
    ) -> Body:
        """Put `after` in the place of `before`, or nothing if it was only waiting for that."""
        meta = after["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and plural != "pods":
            self._remove(actor, plural, name, before)
            return after
        if after == before:
            self.witness(Write(actor, plural, name, before, after, status))
            return before  # as a real server: nothing to write
        if after.get("spec") != before.get("spec"):
            after = {**after, "metadata": {**meta, "generation": meta["generation"] + 1}}
        return self._put(actor, plural, name, before, after, status)

    def _put(
        self,
        actor: str,
        plural: str,
        name: str,
        before: Body | None,
        after: Body,
        status: bool = False,
    ) -> Body:
        self.revision += 1
        version = {"resourceVersion": str(self.revision)}
        after = {**after, "metadata": {**after["metadata"], **version}}
        self.objects[plural, name] = after
        self.log.append(("ADDED" if before is None else "MODIFIED", plural, after))
        self.witness(Write(actor, plural, name, before, after, status))
        return after

    def _remove(self, actor: str, plural: str, name: str, before: Body) -> None:
        self.revision += 1
        del self.objects[plural, name]
        last = deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self.revision)
        self.log.append(("DELETED", plural, last))
        self.witness(Write(actor, plural, name, before, None))
