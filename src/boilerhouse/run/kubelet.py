"""What the product asks of the embedded kubelet: names of labels, a volume, the priority of Pods.

Product.builtins ─► kubelet_settings ─► World.open
"""

from __future__ import annotations

from boilerhouse.core import names
from boilerhouse.embedded.kubelet.containers.builtin_images import Builtins
from boilerhouse.embedded.kubelet.kubelet import Settings
from boilerhouse.embedded.kubelet.pod.turns import Priority
from boilerhouse.node.helper.layout import VOLUME_CLAIM
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import Key
from boilerhouse.platform.loop.priority import Gate

BACKGROUND, FOREGROUND = 0, 1


def kubelet_settings(
    builtins: Builtins, *, pods: int | None = None, reserve: int | None = 0
) -> Settings:
    """Return the settings of the kubelet of one machine."""
    gate = Gate()
    return Settings(
        builtins=builtins,
        pods=pods,
        reserve=reserve,
        volumes={(names.NAMESPACE, VOLUME_CLAIM): "snapshots"},
        ports_annotation=names.PORTS,
        network_label=names.NETWORK,
        priority=pod_priority(gate),
        gate=gate,
    )


def pod_priority(gate: Gate) -> Priority:
    """Return what says whether a caller waits for a Pod's start, or for its end.

    A warm instance without a claim is for callers to come. The end of an instance is waited for
    by a tenant that claims again meanwhile, and gets another instance after it.
    """

    def priority(pod: ObjectMeta, ending: bool) -> int:
        if ending:
            claim = pod.annotations.get(names.CLAIM, "").partition("/")[0]
            wanted = gate.is_wanted(Key(pod.namespace, claim))
        else:
            wanted = names.POOL not in pod.labels or names.CLAIM in pod.annotations
        return FOREGROUND if wanted else BACKGROUND

    return priority
