"""A claim is written ahead of the disk, and the disk refuses: nobody is told what is not so."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from boilerhouse.core import names
from boilerhouse.platform.kube.cache import version
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.tenancy.claims.objects import CLAIMS
from tests.controllers.operator_fixture import World, running_world


async def bound(world: World) -> list[str]:
    return [
        pod.metadata.name for pod in await world.pods() if names.CLAIM in pod.metadata.annotations
    ]


async def test_a_claim_that_cannot_be_stored_leaves_nothing_behind(
    tmp_path: Path, file_limit: Any
) -> None:
    """Neither Claim nor bound Pod, nor in a cache; with room again the tenant is served."""
    with capture_logs():
        async with running_world(tmp_path / "data") as world:
            await world.ready_workload()
            await world.full_pool(size=1)
            file_limit(1)
            with pytest.raises(ApiError, match="could not be stored"):
                await world.operator.acquirer.acquire("alice", "web")
            file_limit(None)
            assert (await world.client.list(CLAIMS)).items == []
            assert await bound(world) == []
            got = await world.operator.acquirer.acquire("alice", "web")
            assert got.phase == "Active"
            cache = world.operator.pod_informer.cache

            async def is_true() -> bool:
                live = {pod.metadata.uid: version(pod) for pod in await world.pods()}
                return live == {pod.metadata.uid: version(pod) for pod in cache.values()}

            await world.settles(is_true)


async def test_a_claim_that_is_answered_while_pending_is_on_disk(tmp_path: Path) -> None:
    """However short the caller waits: a plain read finds it."""
    with capture_logs():
        async with running_world(tmp_path / "data") as world:
            world.kubelet.behaviour = lambda pod, ip, now: None
            await world.ready_workload()
            for n in range(10):
                got = await world.operator.acquirer.acquire(f"t{n}", "web", wait=timedelta(0))
                assert got.claim is not None
                found = await world.client.get(CLAIMS, got.claim.metadata.name)
                assert found.metadata.uid == got.claim.metadata.uid
