"""Every built-in kind in one table: names, subresources, hooks, columns, selectable fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.builtin import (
    budgets,
    cluster,
    columns,
    data,
    network,
    pod,
    pod_change,
    pod_columns,
    service,
    statefulset,
    storage,
)
from boilerhouse.embedded.apiserver.builtin.shapes import Shape, Unlike
from boilerhouse.embedded.apiserver.builtin.trees import Trees
from boilerhouse.embedded.apiserver.crd import kind as crd
from boilerhouse.embedded.apiserver.kind import (
    Body,
    Column,
    Hooks,
    Kind,
    NameRule,
    ScalePaths,
    accept,
    carry_nothing,
    leave,
)
from boilerhouse.embedded.apiserver.schemas.node import Baseline, changed_fields
from boilerhouse.embedded.fields.fieldpath import text_reader
from boilerhouse.platform.kube.status import BadRequest, Cause

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict[str, Any]).decode

_CORE = "io.k8s.api.core.v1"
_DEFINITIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"


@lru_cache(maxsize=1)
def _trees() -> Trees:
    return Trees()


def definitions() -> Mapping[str, Any]:
    """Return the schemas that the built-in kinds refer to, by name."""
    return _trees().definitions


def _no_status(body: Body) -> None:
    """A client cannot say at birth how its object is doing."""
    body.pop("status", None)


def _settled(
    shape: Shape, kind: str, default: Callable[[Body], None], defaults_in: frozenset[str] | None
) -> Callable[[Body, Baseline], None]:
    """Let the shape settle before a kind's defaults; what does not decode is a bad request."""

    def settle(body: Body, baseline: Baseline) -> None:
        try:
            shape.settle(body, baseline)
            if not baseline:
                default(body)
                return
            kept = body.keys() - changed_fields(body, baseline).keys()
            if defaults_in is None or not defaults_in <= kept:
                # Defaults are written anywhere: into copies, not into what is the stored version's.
                body |= decode(encode(body))
                default(body)
                body |= {name: baseline[name] for name in kept if body.get(name) == baseline[name]}
        except Unlike as problem:
            version = body.get("apiVersion", "v1").rpartition("/")[2]
            raise BadRequest(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'
            ) from None

    return settle


def _kind(
    definition: str,
    plural: str,
    shown: tuple[Column, ...],
    *,
    group: str = "",
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    namespaced: bool = True,
    status: bool = False,
    scale: ScalePaths | None = None,
    subresources: tuple[str, ...] = (),
    default: Callable[[Body], None] | None = None,
    defaults_in: frozenset[str] | None = None,  # a write that keeps these finds all defaults there
    born: Callable[[Body], None] | None = None,
    carried: Callable[[Body, Body], None] = carry_nothing,
    validate: Callable[[Body, Body | None], list[Cause]] = accept,
    selectable: Mapping[str, Callable[[Body], str]] | None = None,
    name_rule: NameRule = "subdomain",
    generation: bool = False,
    create_on_update: bool = False,
    unconditional: bool = True,
) -> Kind:
    trees = _trees()
    kind = definition.rpartition(".")[2]
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        schema=trees.schema(definition),
        short_names=short,
        categories=categories,
        status=status,
        scale=scale,
        subresources=subresources,
        columns=shown,
        hooks=Hooks(
            default=_settled(
                trees.shape(definition),
                kind,
                default or leave,
                defaults_in if default else frozenset(),
            ),
            on_create=born or (_no_status if status else leave),
            on_update=carried,
            validate=validate,
        ),
        selectable=selectable or {},
        merge_keys=trees.merging(definition),
        name_rule=name_rule,
        generation=generation,
        unconditional_update=unconditional,
        create_on_update=create_on_update,
    )


def _fields(*paths: str) -> dict[str, Callable[[Body], str]]:
    return {path: text_reader(path) for path in paths}


def _event_source(body: Body) -> str:
    return str((body.get("source") or {}).get("component") or body.get("reportingComponent", ""))


def _host_network(body: Body) -> str:
    return "true" if body.get("spec", {}).get("hostNetwork") else "false"


def _unschedulable(body: Body) -> str:
    return "true" if body.get("spec", {}).get("unschedulable") else "false"


@lru_cache(maxsize=1)
def kinds() -> list[Kind]:
    """Return every built-in kind. Compiled once."""
    return [*_core_kinds(), *_other_kinds()]


def _core_kinds() -> list[Kind]:
    return [
        _kind(
            f"{_CORE}.Namespace",
            "namespaces",
            columns.NAMESPACE,
            short=("ns",),
            namespaced=False,
            status=True,
            subresources=("finalize",),
            default=cluster.default_namespace,
            born=cluster.born_namespace,
            carried=cluster.carried_namespace,
            validate=cluster.validate_namespace,
            selectable=_fields("status.phase"),
            name_rule="label",
        ),
        _kind(
            f"{_CORE}.Pod",
            "pods",
            pod_columns.COLUMNS,
            short=("po",),
            categories=("all",),
            status=True,
            subresources=(
                "attach", "binding", "eviction", "exec", "log", "portforward", "proxy",
            ),
            default=pod.default,
            defaults_in=frozenset({"spec", "status"}),
            born=pod.born,
            carried=pod.carried,
            validate=pod_change.validate,
            selectable=_fields(
                "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
                "spec.serviceAccountName", "status.phase", "status.podIP",
                "status.nominatedNodeName",
            ) | {"spec.hostNetwork": _host_network},
            generation=True,
        ),
        _kind(
            f"{_CORE}.Service",
            "services",
            columns.SERVICE,
            short=("svc",),
            categories=("all",),
            status=True,
            default=service.default,
            carried=service.carried,
            validate=service.validate,
            selectable=_fields("spec.clusterIP", "spec.type"),
            name_rule="label1035",
            create_on_update=True,
        ),
        _kind(
            f"{_CORE}.ConfigMap",
            "configmaps",
            columns.CONFIG_MAP,
            short=("cm",),
            default=data.default_config_map,
            validate=data.validate_config_map,
        ),
        _kind(
            f"{_CORE}.Secret",
            "secrets",
            columns.SECRET,
            default=data.default_secret,
            validate=data.validate_secret,
            selectable=_fields("type"),
        ),
        _kind(
            f"{_CORE}.PersistentVolumeClaim",
            "persistentvolumeclaims",
            columns.CLAIM,
            short=("pvc",),
            status=True,
            default=storage.default,
            born=storage.born,
            validate=storage.validate,
        ),
        _kind(
            f"{_CORE}.Event",
            "events",
            columns.EVENT,
            short=("ev",),
            validate=cluster.validate_event,
            selectable=_fields(
                "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                "involvedObject.uid", "involvedObject.apiVersion",
                "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
                "reportingComponent", "type",
            ) | {"source": _event_source},
            create_on_update=True,
        ),
        _kind(
            f"{_CORE}.ServiceAccount",
            "serviceaccounts",
            columns.SERVICE_ACCOUNT,
            short=("sa",),
        ),
        _kind(
            f"{_CORE}.Node",
            "nodes",
            columns.NODE,
            short=("no",),
            namespaced=False,
            status=True,
            born=leave,
            default=cluster.default_node,
            validate=cluster.validate_node,
            selectable={"spec.unschedulable": _unschedulable},
        ),
        _kind(
            f"{_CORE}.ResourceQuota",
            "resourcequotas",
            columns.QUOTA,
            short=("quota",),
            status=True,
            validate=budgets.validate_quota,
        ),
        _kind(
            f"{_CORE}.LimitRange",
            "limitranges",
            columns.LIMIT_RANGE,
            short=("limits",),
            default=budgets.default_limit_range,
            validate=budgets.validate_limit_range,
            create_on_update=True,
        ),
    ]  # fmt: skip


def _other_kinds() -> list[Kind]:
    return [
        _kind(
            "io.k8s.api.apps.v1.StatefulSet",
            "statefulsets",
            columns.STATEFUL_SET,
            group="apps",
            short=("sts",),
            categories=("all",),
            status=True,
            scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"),
            default=statefulset.default,
            validate=statefulset.validate,
            generation=True,
        ),
        _kind(
            "io.k8s.api.coordination.v1.Lease",
            "leases",
            columns.LEASE,
            group="coordination.k8s.io",
            validate=cluster.validate_lease,
            create_on_update=True,
            unconditional=False,
        ),
        _kind(
            "io.k8s.api.discovery.v1.EndpointSlice",
            "endpointslices",
            columns.ENDPOINT_SLICE,
            group="discovery.k8s.io",
            default=network.default_slice,
            validate=network.validate_slice,
            generation=True,
        ),
        _kind(
            "io.k8s.api.networking.v1.NetworkPolicy",
            "networkpolicies",
            columns.NETWORK_POLICY,
            group="networking.k8s.io",
            short=("netpol",),
            default=network.default_policy,
            validate=network.validate_policy,
            generation=True,
        ),
        _kind(
            "io.k8s.api.policy.v1.PodDisruptionBudget",
            "poddisruptionbudgets",
            columns.DISRUPTION_BUDGET,
            group="policy",
            short=("pdb",),
            status=True,
            validate=budgets.validate_disruption_budget,
            generation=True,
            unconditional=False,
        ),
        _kind(
            f"{_DEFINITIONS}.CustomResourceDefinition",
            "customresourcedefinitions",
            columns.DEFINITION,
            group="apiextensions.k8s.io",
            short=("crd", "crds"),
            categories=("api-extensions",),
            namespaced=False,
            status=True,
            default=crd.default_crd,
            born=crd.HOOKS.on_create,
            carried=crd.HOOKS.on_update,
            validate=crd.HOOKS.validate,
            generation=True,
            unconditional=False,
        ),
    ]
