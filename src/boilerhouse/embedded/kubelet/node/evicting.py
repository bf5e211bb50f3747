"""Disk limits: a Pod that uses more than it may is ended, as a real kubelet does.

    every so often ─► used_bytes of what has a limit ─► too_much() ─► PodWorker.evict

An eviction loses what the Pod had not saved. So it is late on purpose: two looks in a row. And it
is not for a Pod with a built-in sidecar: that sees to its limit and loses no files, so such a Pod
is never evicted for its disk, whatever limits its spec has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.kernel.trees import used_bytes
from boilerhouse.embedded.kubelet.objects.containerspec import accompanied
from boilerhouse.embedded.kubelet.pod.pod import PodWorker

Body = Mapping[str, Any]

log = structlog.get_logger(__name__)


class Evictions:
    """`run` it beside the workers."""

    def __init__(
        self,
        workers: Callable[[], Iterable[PodWorker]],
        memory: Memory,
        every: float,
        built_in: Callable[[Body], bool],
    ) -> None:
        """`built_in` tells the built-in containers."""
        self._workers = workers
        self._built_in = built_in
        self._unseen: set[str] = set()
        self._memory = memory
        self._every = every
        self._warned: set[str] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            workers = [one for one in self._workers() if not one.finished]
            here = {worker.pod.metadata.uid for worker in workers}
            self._warned &= here
            self._unseen &= here
            for worker in workers:
                spec = worker.pod.spec
                if limited(spec) and not accompanied(spec, self._built_in):
                    await self._try_to_look(worker)

    async def _try_to_look(self, worker: PodWorker) -> None:
        """Look at one Pod; whatever is wrong with its files, the others are looked at."""
        uid = worker.pod.metadata.uid
        try:
            await self._look(worker)
        except Exception as error:  # noqa: BLE001  containers make the strangest trees
            if uid not in self._unseen:
                log.warning("kubelet.disk_unseen", pod=worker.pod.metadata.name, error=str(error))
            self._unseen.add(uid)
        else:
            self._unseen.discard(uid)

    async def _look(self, worker: PodWorker) -> None:
        uid = worker.pod.metadata.uid
        in_memory = self._memory.path(uid)
        why = await asyncio.to_thread(too_much, worker.pod.spec, worker.directory, in_memory)
        if why is None:
            self._warned.discard(uid)
        elif uid in self._warned:
            self._warned.discard(uid)
            worker.evict(why)
        else:
            self._warned.add(uid)


def limited(spec: Body) -> bool:
    """Tell whether anything of a Pod is limited on disk."""
    return bool(_sizes(spec)) or _storage(spec) is not None


def too_much(spec: Body, directory: Path, in_memory: Path) -> str | None:
    """Say what a Pod uses more of than it may; None if all is well."""
    for name, (limit, memory) in _sizes(spec).items():
        path = in_memory / name if memory else directory / "volumes" / name
        if used_bytes(path) > parse(limit).whole:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    most = _storage(spec)
    if most is not None and used_bytes(directory) > most:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {most}. "
    return None


def _sizes(spec: Body) -> dict[str, tuple[str, bool]]:
    """Return the volumes with a limit: how much, and whether they are in memory."""
    return {
        volume["name"]: (str(source["sizeLimit"]), source.get("medium") == "Memory")
        for volume in spec.get("volumes", ())
        if "sizeLimit" in (source := volume.get("emptyDir") or {})
        and parse(str(source["sizeLimit"]))
    }


def _storage(spec: Body) -> int | None:
    """Return how much all containers may use together; None if one of them has no limit."""
    total = 0
    for container in spec.get("containers", ()):
        limits = container.get("resources", {}).get("limits", {})
        if "ephemeral-storage" not in limits:
            return None
        total += parse(str(limits["ephemeral-storage"])).whole
    return total or None
