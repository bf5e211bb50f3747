"""Where a Pod's ports are reached: at its own address, usually under their own number.

declared ports ─► Ports.forward ─► taken? another ─► an annotation of the Pod
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from boilerhouse.embedded.kubelet.containers.containerloop import Said
from boilerhouse.embedded.kubelet.sandbox.sandbox import PodSandbox
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import Conflict, NotFound

_PRIVILEGED = 1024  # below that only root may listen


class Ports:
    """The ports of one Pod."""

    def __init__(self, client: Client, said: Said, annotation: str) -> None:
        """`annotation`: where other numbers are written; nowhere if it is empty."""
        self.reached: dict[int, int] = {}  # declared ─► reached at
        self._client = client
        self._said = said
        self._annotation = annotation

    async def forward(self, sandbox: PodSandbox, containers: Iterable[Mapping[str, Any]]) -> None:
        """Listen for the TCP ports that sandboxed containers declare."""
        declared = [
            port["containerPort"]
            for container in containers
            for port in container.get("ports", ())
            if port.get("protocol", "TCP") == "TCP"
        ]
        for port, (host, number) in (await sandbox.forward(declared)).items():
            self.reached[port] = number
            if number != port:
                why = "is taken on this machine by another program"
                if port < _PRIVILEGED and os.geteuid() != 0:
                    why = "is taken on this machine, or only root may listen on it"
                words = f"port {port} {why}; reached at {host}:{number}"
                self._said("Warning", "PortTaken", words)

    async def tell(self, pod: ObjectMeta) -> None:
        """Write which ports are reached under another number; usually none, and nothing."""
        moved = ",".join(f"{port}:{at}" for port, at in sorted(self.reached.items()) if at != port)
        if not self._annotation or moved == pod.annotations.get(self._annotation, ""):
            return
        patch = {"metadata": {"uid": pod.uid, "annotations": {self._annotation: moved or None}}}
        # Deleted meanwhile, or another has its name by now: the next event says so.
        with contextlib.suppress(NotFound, Conflict):
            await self._client.merge_patch(PODS, pod.name, patch, namespace=pod.namespace)
