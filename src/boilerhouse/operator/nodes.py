"""Which nodes can be trusted with a tenant."""

from __future__ import annotations

from boilerhouse.kube.informer import Informer
from boilerhouse.kube.kinds import Node
from boilerhouse.kube.views import Views


class Nodes:
    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes
        self._views = Views(_is_healthy)

    def healthy(self, name: str) -> bool:
        """Whether a node is Ready and not being emptied. One that is not known is neither."""
        node = self._nodes.get("", name)
        return node is not None and self._views.of(node)


def _is_healthy(node: Node) -> bool:
    if node.spec.unschedulable:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
