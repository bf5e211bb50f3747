"""PersistentVolumeClaims: a directory each, bound when the first Pod mounts it.

    claim ─► PersistentClaims.use ─► a directory it was given | DIR/volumes/<claim uid> ─► Bound

Run as root, each Pod is another user to the kernel. So a claim belongs to one Pod at a time, and is
handed over, file by file, to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from boilerhouse.embedded.kubelet.kernel.trees import give_tree
from boilerhouse.embedded.kubelet.objects.references import Missing
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Dynamic
from boilerhouse.platform.kube.resources import Resource
from boilerhouse.platform.kube.status import NotFound

_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", Dynamic)


class PersistentClaims:
    """Every claim of this machine."""

    def __init__(self, client: Client, data: Path, given: Mapping[tuple[str, str], str]) -> None:
        """`given`: directories below `data` of some of them, by namespace and name."""
        self._client = client
        self._data = data
        self._given = given
        self._users: dict[str, str] = {}

    async def use(
        self, namespace: str, name: str, pod_uid: str, own: Callable[[Path], None]
    ) -> Path:
        """Return a claim's directory for a Pod; raises `Missing` if there is no such claim now."""
        try:
            claim = await self._client.get(_CLAIMS, name, namespace=namespace)
        except NotFound:
            raise Missing(f'persistentvolumeclaim "{name}" not found') from None
        if claim.metadata.deletion_timestamp is not None:
            raise Missing(f'persistentvolumeclaim "{name}" is being deleted')
        user = self._users.setdefault(claim.metadata.uid, pod_uid)
        if user != pod_uid:
            raise Missing(f'persistentvolumeclaim "{name}" is in use by another Pod')
        given = self._given.get((namespace, name))
        path = self._data / (given or f"volumes/{claim.metadata.uid}")
        await asyncio.to_thread(_ready, path, own)
        if claim.status.get("phase") != "Bound":
            await self._bind(claim)
        return path

    def let_go(self, pod_uid: str) -> None:
        """A Pod is gone: its claims are free."""
        self._users = {claim: user for claim, user in self._users.items() if user != pod_uid}

    async def _bind(self, claim: Dynamic) -> None:
        status = {
            "phase": "Bound",
            "accessModes": claim.spec.get("accessModes", []),
            "capacity": claim.spec.get("resources", {}).get("requests", {}),
        }
        await self._client.merge_patch(
            _CLAIMS,
            claim.metadata.name,
            {"status": status},
            namespace=claim.metadata.namespace,
            subresource="status",
        )


def _ready(path: Path, own: Callable[[Path], None]) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_tree(path, own)
