"""What of a Pod may change: images, further tolerations, metadata. Nothing else of its spec."""

from __future__ import annotations

from typing import Any

from boilerhouse.embedded.apiserver.builtin.pod_rules import spec_causes
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.status import Cause, forbidden_field


def validate(body: Body, old: Body | None) -> list[Cause]:
    """Check a Pod, new or changed."""
    spec = body["spec"]
    if old is None:
        return spec_causes(spec)
    if spec == old["spec"]:
        return []  # it was found right when it was stored
    return spec_causes(spec) + change_causes(spec, old["spec"])


_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def change_causes(spec: Body, old: Body) -> list[Cause]:
    """A Pod's spec is fixed, but for images and more tolerations."""
    for group in ("containers", "initContainers"):
        if len(spec.get(group, ())) != len(old.get(group, ())):
            return [
                forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")
            ]
    causes: list[Cause] = []
    kept = old.get("tolerations", [])
    if any(toleration not in spec.get("tolerations", []) for toleration in kept):
        words = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_field("spec.tolerations", words))
    if _fixed(spec) != _fixed(old):
        causes.append(forbidden_field("spec", _CHANGE))
    return causes


def _fixed(spec: Body) -> dict[str, Any]:
    fixed = {name: value for name, value in spec.items() if name != "tolerations"}
    for group in ("containers", "initContainers"):
        fixed[group] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(group, ())
        ]
    return fixed
