"""This machine as a Node object: registered, kept, and alive by a Lease.

machine ─► capacity() ─► Node boilerhouse ─► Lease every 10 s
DiskPressure ─► disk_pressure() ─► condition and taint, at once
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from boilerhouse.core.clock import Clock, rfc3339, rfc3339_micro
from boilerhouse.core.version import version
from boilerhouse.embedded.fields.quantity import Quantity, parse
from boilerhouse.embedded.kubelet.kernel import linux
from boilerhouse.embedded.kubelet.objects.room import Requests
from boilerhouse.embedded.kubelet.objects.status import LIMITS_ENFORCED
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import LEASES, NAMESPACES, NODES
from boilerhouse.platform.kube.status import AlreadyExists, ApiError, NotFound
from boilerhouse.platform.kube.wire import STRATEGIC_PATCH

NODE = "boilerhouse"
HOST_IP = "127.0.0.1"
PODS = 1000
# Requests are worst cases, and tenants on one machine are mostly idle: processors and disk are
# promised several times over. Memory is not: who runs out of it is killed.
PROCESSORS_PROMISED = 16
DISK_PROMISED = 8
_LEASES = "kube-node-lease"
_RENEW = 10.0
_LEASE_SECONDS = 40
_SHORTLY = 0.2
_REFRESH = 30  # renewals after which the Node's status is written again, too
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"

Body = Mapping[str, Any]

log = structlog.get_logger(__name__)


def capacity(directory: Path) -> Requests:
    """Return what Pods may ask for in all: of processors, memory and the disk of `directory`."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs(directory)
    return Requests(
        parse(str(PROCESSORS_PROMISED * len(os.sched_getaffinity(0)))),
        parse(f"{page * pages // 1024}Ki"),
        parse(f"{DISK_PROMISED * disk.f_frsize * disk.f_blocks // 1024}Ki"),
        PODS,
    )


def amounts(capacity: Requests) -> dict[str, Quantity]:
    """Return a capacity by the names of its resources, as Pods may ask for it."""
    return {
        "cpu": capacity.cpu,
        "memory": capacity.memory,
        "ephemeral-storage": capacity.storage,
    }


class NodeObject:
    """`register` it, then `run` it beside the kubelet."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        capacity: Requests,
        limits_unenforced: str | None,
        limits_enforced: str,
        no_quotas: str,
    ) -> None:
        """`no_quotas`: why disk limits are not enforced by quotas; empty if they are."""
        self._no_quotas = no_quotas
        self._client = client
        self._clock = clock
        self._capacity = capacity
        self._limits_unenforced = limits_unenforced
        self._limits_enforced = limits_enforced
        self._disk_pressure = False
        self._stale = asyncio.Event()

    def disk_pressure(self, pressed: bool) -> None:
        """Have it told that there is too little room on the disk, or enough again."""
        self._disk_pressure = pressed
        self._stale.set()

    async def register(self) -> None:
        """Create the Node, or make the one of an earlier life ours again."""
        labels = {
            "kubernetes.io/hostname": NODE,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": linux.architecture(),
        }
        try:
            await self._client.create(NODES, {"metadata": {"name": NODE, "labels": labels}})
        except AlreadyExists:
            patch = {"metadata": {"labels": labels}}
            await self._client.merge_patch(NODES, NODE, patch)
        await self._write_taint()
        await self._write_status()
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"metadata": {"name": _LEASES}})
        await self._renew()

    async def run(self) -> None:
        """Renew the Lease for ever; a Node that somebody deleted comes back."""
        beats = 0
        while True:
            await self._next_beat()
            beats += 1
            try:
                await self._renew()
                if beats % _REFRESH == 0 or self._stale.is_set():
                    await self._tell()
            except NotFound:
                await self._reregister()
            except ApiError as error:
                log.warning("kubelet.lease_unrenewed", error=str(error))

    async def _next_beat(self) -> None:
        try:
            async with asyncio.timeout(_RENEW):
                await self._stale.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_SHORTLY)  # what cannot be written is not written again at once

    async def _tell(self) -> None:
        """Write what is so now; what could not be written stays stale."""
        pressed = self._disk_pressure
        await self._write_taint()
        await self._write_status()
        if pressed == self._disk_pressure:
            self._stale.clear()

    async def _reregister(self) -> None:
        try:
            await self.register()
        except ApiError as error:
            log.warning("kubelet.node_unregistered", error=str(error))

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": NODE,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": rfc3339_micro(self._clock.now()),
        }
        try:
            await self._client.merge_patch(LEASES, NODE, {"spec": spec}, namespace=_LEASES)
        except NotFound:
            body = {"metadata": {"name": NODE, "namespace": _LEASES}, "spec": spec}
            await self._client.create(LEASES, body)

    async def _write_taint(self) -> None:
        """Taint the Node while its disk is nearly full, as a real cluster does; others' stay."""
        node = await self._client.raw("GET", NODES.path("", NODE))
        taints = node.get("spec", {}).get("taints", [])
        wanted = with_taint(taints, DISK_PRESSURE, there=self._disk_pressure)
        if wanted != taints:
            await self._client.merge_patch(NODES, NODE, {"spec": {"taints": wanted or None}})

    async def _write_status(self) -> None:
        path = NODES.path("", NODE, "status")
        before = await self._client.raw("GET", path)
        status = node_status(
            before.get("status", {}),
            self._capacity,
            self._limits_unenforced,
            self._limits_enforced,
            rfc3339(self._clock.now()),
            disk_pressure=self._disk_pressure,
            no_quotas=self._no_quotas,
        )
        await self._client.raw("PATCH", path, {"status": status}, content_type=STRATEGIC_PATCH)


def with_taint(taints: list[Body], key: str, *, there: bool) -> list[Body]:
    """Return a Node's taints with or without one that keeps new Pods away."""
    others = [taint for taint in taints if taint.get("key") != key]
    if not there:
        return others
    return [*others, {"key": key, "effect": "NoSchedule"}]


def node_status(
    before: Mapping[str, Any],
    capacity: Requests,
    limits_unenforced: str | None,
    limits_enforced: str,
    now: str,
    *,
    disk_pressure: bool = False,
    no_quotas: str = "",
) -> dict[str, Any]:
    """Return the Node's status; a condition that stays keeps the time of its transition."""
    there = {name: str(amount) for name, amount in amounts(capacity).items()}
    there["pods"] = str(capacity.pods)
    enforced = ("True", "CgroupAvailable", limits_enforced)
    if limits_unenforced is not None:
        enforced = ("False", "NoCgroup", limits_unenforced)
    disk = ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
    if disk_pressure:
        disk = ("True", "KubeletHasDiskPressure", "kubelet has disk pressure")
    quotas = ("True", "QuotasEnforced", "an instance that has used up its disk gets an error")
    if no_quotas:
        quotas = ("False", "NoQuotas", f"{no_quotas}: an instance is frozen at its diskGb instead")
    wanted = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
        "DiskPressure": disk,
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        LIMITS_ENFORCED: enforced,
        "DiskQuotas": quotas,
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    old = {one.get("type"): one for one in before.get("conditions", ())}
    conditions = []
    for name, (status, reason, message) in wanted.items():
        same = old.get(name, {}).get("status") == status
        since = old[name].get("lastTransitionTime") if same else None
        conditions.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        )
    return {
        "capacity": there,
        "allocatable": there,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": HOST_IP},
            {"type": "Hostname", "address": NODE},
        ],
        "nodeInfo": _node_info(),
    }


def _node_info() -> dict[str, str]:
    return {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": platform.release(),
        "osImage": "Linux",
        "containerRuntimeVersion": "boilerhouse://" + version(),
        "kubeletVersion": f"v{version()}",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": linux.architecture(),
    }
