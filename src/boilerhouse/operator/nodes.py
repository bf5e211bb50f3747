"""Which nodes can be trusted with a tenant."""

from __future__ import annotations

from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Node


class Nodes:
    def __init__(self, nodes: Informer[Node]) -> None:
        self._healthy = nodes.index(lambda node: [node.metadata.name] if _is_healthy(node) else [])

    def healthy(self, name: str) -> bool:
        """Whether a node is Ready and not being emptied. One that is not known is neither."""
        return self._healthy.count(name) > 0


def _is_healthy(node: Node) -> bool:
    if node.spec.unschedulable:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
