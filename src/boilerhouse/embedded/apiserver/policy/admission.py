"""What a namespace has to say about what is created in it.

create ──► admit (namespace alive? service account there? limit-range defaults) ──► validation
       ──► check (limit-range bounds) ──► quota (writing.py) ──► commit
"""

from __future__ import annotations

from boilerhouse.core.clock import Clock, new_uid, rfc3339
from boilerhouse.embedded.apiserver.builtin import allocate_cluster_ip
from boilerhouse.embedded.apiserver.crd import kind as crd
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.policy import limits, quota
from boilerhouse.embedded.apiserver.request.refusals import forbidden, invalid
from boilerhouse.embedded.apiserver.storage.store import Key, Put, Store
from boilerhouse.platform.kube.status import (
    Cause,
    InternalError,
    MethodNotAllowed,
    NotFound,
    invalid_value,
)

# The namespaces there always are: they are made at the start and cannot be deleted.
ALWAYS = ("default", "kube-system")
_LIMITED = ("pods", "persistentvolumeclaims")
# Those whose changes depend on what else there is; all others are let through at a glance.
_SETTLED = frozenset({crd.RESOURCE, quota.RESOURCE, "persistentvolumeclaims"})


class Admission:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def admit(self, kind: Kind, key: Key, body: Body) -> None:
        """Refuse what has no place here, and fill in what the namespace decides."""
        if kind.custom:
            self._check_definition(kind)
        if not key.namespace:
            return
        self._check_namespace(kind, key)
        if kind.resource == "pods":
            self._check_service_account(kind, key, body)
            ranges = self._ranges(key)
            if ranges:
                limits.apply_defaults(body, ranges)
                kind.hooks.default(body, {})  # its quality of service may be another now
        elif kind.resource == "services":
            self._give_address(kind, key, body)

    def check(self, kind: Kind, key: Key, body: Body) -> None:
        """Refuse a valid object that asks for more, or less, than the namespace allows."""
        self._settle(kind, key, body)
        if kind.resource in _LIMITED:
            found = limits.breaches(kind.resource, body, self._ranges(key))
            if found:
                words = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                raise forbidden(kind, key.name, words)

    def check_change(self, kind: Kind, key: Key, body: Body, old: Body) -> None:
        """Do the same for a change; what a Pod asks for does not change."""
        if kind.resource not in _SETTLED:
            return
        self._settle(kind, key, body)
        if kind.resource == "persistentvolumeclaims" and body.get("spec") != old.get("spec"):
            self.check(kind, key, body)

    def companions(self, kind: Kind, key: Key) -> list[Put]:
        """Return what is created together with an object: a namespace's default account."""
        if kind.resource != "namespaces":
            return []
        account = Key("serviceaccounts", key.name, "default")
        return [] if self._store.head(account) else [self.default_account(key.name)]

    def default_account(self, namespace: str) -> Put:
        metadata = {
            "name": "default",
            "namespace": namespace,
            "uid": new_uid(),
            "creationTimestamp": rfc3339(self._clock.now()),
        }
        body = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
        return Put(Key("serviceaccounts", namespace, "default"), body)

    def _check_namespace(self, kind: Kind, key: Key) -> None:
        namespace = self._store.head(Key("namespaces", "", key.namespace))
        if namespace is None:
            raise NotFound(
                f'namespaces "{key.namespace}" not found', kind="namespaces", name=key.namespace
            )
        if "deletionTimestamp" in namespace.body["metadata"]:
            raise forbidden(
                kind,
                key.name,
                f"unable to create new content in namespace {key.namespace} "
                "because it is being terminated",
                [
                    Cause(
                        "NamespaceTerminating",
                        f"namespace {key.namespace} is being terminated",
                        "metadata.namespace",
                    )
                ],
            )

    def _check_definition(self, kind: Kind) -> None:
        definition = self._store.head(Key(crd.RESOURCE, "", kind.resource))
        if definition is not None and "deletionTimestamp" in definition.body["metadata"]:
            raise MethodNotAllowed(
                "create not allowed while custom resource definition is terminating",
                kind=kind.plural,
                group=kind.group,
            )

    def _check_service_account(self, kind: Kind, key: Key, pod: Body) -> None:
        name = pod.get("spec", {}).get("serviceAccountName") or "default"
        if self._store.head(Key("serviceaccounts", key.namespace, name)) is None:
            raise forbidden(
                kind,
                key.name,
                f"error looking up service account {key.namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )

    def _give_address(self, kind: Kind, key: Key, service: Body) -> None:
        """Give a Service an address of its own, or refuse one that is another's."""
        taken = {
            other.body["spec"].get("clusterIP")
            for other in self._store.scan_head("services")
            if other.key != key
        } - {None, "", "None"}
        address = service["spec"].get("clusterIP")
        if address in taken:
            why = "provided IP is already allocated"
            field = "spec.clusterIPs"
            raise invalid(kind, key.name, [invalid_value(field, [address], why)])
        try:
            allocate_cluster_ip(service, taken)
        except LookupError as error:
            raise InternalError(f"no address for the Service: {error}") from None

    def _settle(self, kind: Kind, key: Key, body: Body) -> None:
        """Let the kinds have their say that depend on what else there is."""
        if kind.resource == crd.RESOURCE:
            others = [other.body for other in self._store.scan_head(crd.RESOURCE)]
            crd.settle_names(body, others, self._clock)
        elif kind.resource == quota.RESOURCE:
            causes = quota.refused_scopes(body)
            if causes:
                raise invalid(kind, key.name, causes)

    def _ranges(self, key: Key) -> list[Body]:
        return [stored.body for stored in self._store.scan_head("limitranges", key.namespace)]
