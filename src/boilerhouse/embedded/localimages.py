"""Whether an image can be had on this machine: it is in the local store, or is the machine itself.

workload ─► LocalImages.missing ─► ImageStore
"""

from __future__ import annotations

import asyncio

from boilerhouse.embedded.kubelet.images import HOST, ImageStore


class LocalImages:
    """`workloads.images.Images` of one machine, which pulls nothing."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    async def missing(self, reference: str) -> str:
        if reference == HOST or await asyncio.to_thread(self._store.get, reference) is not None:
            return ""
        there = ", ".join([HOST, *await asyncio.to_thread(self._store.names)])
        return f"image {reference} is not in the local store, which has: {there}"
