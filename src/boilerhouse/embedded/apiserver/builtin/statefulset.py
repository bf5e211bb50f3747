"""StatefulSets: defaults, rules, and what may change."""

from __future__ import annotations

from boilerhouse.embedded.apiserver.builtin import storage
from boilerhouse.embedded.apiserver.builtin.pod_rules import template_causes
from boilerhouse.embedded.apiserver.builtin.podspec import default_spec
from boilerhouse.embedded.apiserver.builtin.rules import (
    count_or_percent,
    dns_label,
    label_selector,
    not_negative,
)
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.selectors import object_selector
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    unsupported_value,
)

_CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def default(body: Body) -> None:
    spec = body["spec"]
    default_spec(spec["template"].setdefault("spec", {}))
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        storage.default(claim)


def validate(body: Body, old: Body | None) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.replicas", spec["replicas"])
    causes += not_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
    causes += not_negative("spec.ordinals.start", spec.get("ordinals", {}).get("start", 0))
    causes += _strategy_causes(spec["updateStrategy"])
    causes += label_selector("spec.selector", spec["selector"])
    if not causes and spec["selector"].keys() == set():
        words = "empty selector is invalid for statefulset"
        causes.append(invalid_value("spec.selector", spec["selector"], words))
    template = spec["template"]
    labels = template.get("metadata", {}).get("labels", {})
    if not causes and not object_selector(spec["selector"]).matches(labels):
        words = "`selector` does not match template `labels`"
        causes.append(invalid_value("spec.template.metadata.labels", labels, words))
    if template["spec"]["restartPolicy"] != "Always":
        field = "spec.template.spec.restartPolicy"
        causes.append(unsupported_value(field, template["spec"]["restartPolicy"], ["Always"]))
    claims = spec.get("volumeClaimTemplates", [])
    for index, claim in enumerate(claims):
        causes += storage.spec_causes(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    claimed = {claim["metadata"].get("name", "") for claim in claims}
    causes += template_causes(template, "spec.template", claimed)
    if spec["serviceName"]:
        causes += dns_label("spec.serviceName", spec["serviceName"])
    if old is not None:
        causes += _change_causes(spec, old["spec"])
    return causes


def _strategy_causes(strategy: Body) -> list[Cause]:
    field = "spec.updateStrategy"
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete" and rolling is not None:
        words = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid_value(f"{field}.rollingUpdate", rolling, words)]
    causes: list[Cause] = []
    if rolling is not None:
        causes += not_negative(f"{field}.rollingUpdate.partition", rolling.get("partition", 0))
        if "maxUnavailable" in rolling:
            causes += count_or_percent(
                f"{field}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
            )
    return causes


def _change_causes(spec: Body, before: Body) -> list[Cause]:
    fixed = (spec.keys() | before.keys()) - set(_CHANGEABLE)
    if all(spec.get(name) == before.get(name) for name in fixed):
        return []
    listed = ", ".join(f"'{name}'" for name in _CHANGEABLE[:-1])
    words = (
        f"updates to statefulset spec for fields other than {listed} and "
        f"'{_CHANGEABLE[-1]}' are forbidden"
    )
    return [forbidden_field("spec", words)]
