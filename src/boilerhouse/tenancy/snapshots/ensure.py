"""Keeps the helper there: whoever deletes it gets it back.

Pod informer, and a look every half minute ─► read ─► decide ─► apply

A bare Pod rather than a Deployment: exactly one may hold the volume, and the embedded world has no
controllers of Kubernetes' own.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import structlog

from boilerhouse.core.clock import token
from boilerhouse.core.names import TEMPLATE
from boilerhouse.node.helper import layout
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, PVCS, SECRETS, Key, Resource
from boilerhouse.platform.kube.status import AlreadyExists, Conflict, NotFound
from boilerhouse.tenancy.snapshots import build
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.decide import Create, DeletePod, Plan, PodSeen, Seen

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=30)  # no event tells of a Secret or a volume claim that is gone


class HelperKeeper:
    """Reads and applies for the controller of the helper's objects."""

    def __init__(self, client: Client, settings: HelperSettings) -> None:
        self._client = client
        self._settings = settings

    async def read(self, key: Key) -> Seen:
        """Look at the three objects, live: what a cache does not have may still be there."""
        secret = await self._client.find(SECRETS, layout.SECRET)
        claim = await self._client.find(PVCS, layout.VOLUME_CLAIM)
        pod = await self._client.find(PODS, layout.POD)
        uid = None if secret is None else secret.metadata.uid
        return Seen(
            secret_uid=uid,
            volume_claim=claim is not None,
            pod=None if pod is None else _pod(pod),
            wanted=None if uid is None else build.template_hash(self._settings, uid),
        )

    async def apply(self, key: Key, seen: Seen, plan: Plan) -> timedelta:
        """Carry the steps out; what another process did meanwhile is as good."""
        for step in plan:
            log.info("helper.step", step=step)
            match step:
                case Create("secret"):
                    await self._create(SECRETS, build.helper_secret(token()))
                case Create("volume claim"):
                    await self._create(PVCS, build.volume_claim(self._settings))
                case Create():
                    assert seen.secret_uid is not None, "decided only when there is one"
                    await self._create(PODS, build.helper_pod(self._settings, seen.secret_uid))
                case DeletePod(uid, version):
                    # Gone or changed meanwhile: look again.
                    with contextlib.suppress(NotFound, Conflict):
                        await self._client.delete(
                            PODS, layout.POD, uid=uid, resource_version=version
                        )
        return timedelta(0) if any(step != Create("pod") for step in plan) else LOOK_AGAIN

    async def _create(self, resource: Resource[Any], body: build.Body) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(resource, body)


def _pod(pod: Pod) -> PodSeen:
    return PodSeen(
        uid=pod.metadata.uid,
        version=pod.metadata.resource_version,
        template=pod.metadata.labels.get(TEMPLATE, ""),
        ended=pod.status.phase in ("Failed", "Succeeded"),
        terminating=pod.metadata.deletion_timestamp is not None,
    )
