"""Overlays out of instances and into them: on one machine, and on a real node.

operator's side (SnapshotClient) ─► helper's Pod ─► agent ─► the tenant's processes and files
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile

import msgspec

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.helper.wire import Saved
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.tenancy.instances import build
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.identities import HelperIdentities
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from boilerhouse.tenancy.workloads.model import WorkloadSpec
from tests.e2e.helper_fixture import AGENT_TOKEN, Stage, workload
from tests.e2e.tenants import eventually
from tests.waiting import until

ANNA = Identity("anna", "shop", "claim-anna-shop", "uid-1", ())

# Keeps its state in memory, writes it when asked to end, and counts on in a file all the while.
TENANT = """
state=$(cat /workspace/state 2>/dev/null || echo empty)
trap 'echo "$state" > /workspace/state; exit 0' TERM
test -e /workspace/state || echo "$state" > /workspace/state
while :; do printf x >> /workspace/count; sleep 0.01; done
"""

COUNTING = "until test -s /workspace/count; do sleep 0.01; done"  # else it may not have begun


def snapshots(stage: Stage) -> SnapshotClient:
    return SnapshotClient(stage.client, stage.route, Agents(stage.client))


async def save(stage: Stage, pod: Pod, base: str = "") -> Saved:
    return await snapshots(stage).save(
        pod.metadata.name, pod.metadata.uid, tenant="anna", workload="shop", base=base
    )


def life(pod: Pod) -> str:
    return pod.status.container_statuses[0].container_id


async def gone(stage: Stage, name: str, timeout: float) -> None:
    await until(stage.client, PODS, name, lambda one: one is None, timeout=timeout)


async def count(stage: Stage, name: str) -> int:
    async with stage.helper.open_file(name, "/workspace/count") as body:
        return len(await body.read(1 << 20))  # type: ignore[union-attr]  # it is a file


async def test_a_warm_instance_gets_the_past_of_another(stage: Stage) -> None:
    """Saved while it runs, restored under a tenant that has state of its own: the past wins."""
    first = await stage.instance("inst-a", TENANT)
    await stage.sh("inst-a", COUNTING)
    await stage.sh("inst-a", "echo precious > /workspace/state; mkdir -p /workspace/d/e")
    saved = await save(stage, first)
    before = await count(stage, "inst-a")
    await asyncio.sleep(0.3)
    assert await count(stage, "inst-a") == before, "it runs though it was saved"
    await stage.client.delete(PODS, "inst-a", grace=0)
    await gone(stage, "inst-a", 30)

    second = await stage.instance("inst-b", TENANT)
    await stage.sh("inst-b", COUNTING)
    clock = SystemClock()
    began = clock.monotonic()
    for already in (False, True):
        restored = await snapshots(stage).restore(
            "inst-b", second.metadata.uid,
            tenant="anna", workload="shop", digest=saved.digest, mode="restart",
        )  # fmt: skip
        assert restored.already == already
        assert restored.container
        assert life(second).endswith(restored.container)
    now = await stage.until("inst-b", lambda pod: pod.ready and life(pod) != life(second))
    assert clock.monotonic() - began < 9, "it was made to wait as if it had crashed"
    assert [one.restart_count for one in now.status.container_statuses] == [1]
    told = await stage.sh("inst-b", "cat /workspace/state; ls -d /workspace/d/e; id -u")
    assert told.split()[:2] == ["precious", "/workspace/d/e"]
    assert await count(stage, "inst-b") >= before

    # What the second has done since is saved by it, and kept apart from nothing.
    again = await save(stage, second, saved.digest)
    assert (again.current, again.conflict, again.unchanged) == (True, False, False)
    await snapshots(stage).thaw("inst-b", second.metadata.uid)
    grown = await count(stage, "inst-b")
    await stage.sh("inst-b", f"until test $(wc -c < /workspace/count) -gt {grown}; do :; done")


async def test_a_cold_instance_starts_with_its_past(stage: Stage) -> None:
    """Its tenant's first life begins after the restore, and finds everything there."""
    first = await stage.instance("inst-a", "echo mine > /workspace/f; exec sleep 1000")
    await stage.sh("inst-a", "until test -s /workspace/f; do sleep 0.01; done")
    saved = await save(stage, first)
    await stage.client.delete(PODS, "inst-a", grace=0)

    spec = msgspec.convert(
        workload(stage.tenant_image, "cat /workspace/f; exec sleep 1000"), WorkloadSpec
    )
    settings = Settings(product_image=stage.product_image)
    pod = build.cold_pod(
        "inst-b", "shop", spec, settings, tenant="anna", claim="c/u", restore=saved.digest
    )
    await stage.client.create(SECRETS, build.agent_secret("inst-b", AGENT_TOKEN))
    made = await stage.client.create(PODS, pod)
    await stage.until("inst-b", lambda one: bool(one.status.pod_ip))
    await asyncio.sleep(2)
    waiting = await stage.client.get(PODS, "inst-b")
    assert not any(one.state.running for one in waiting.status.container_statuses)
    restored = await snapshots(stage).restore(
        "inst-b", made.metadata.uid,
        tenant="anna", workload="shop", digest=saved.digest, mode="cold",
    )  # fmt: skip
    assert (restored.already, restored.container) == (False, "")
    now = await stage.until("inst-b", lambda one: one.ready)
    assert [one.restart_count for one in now.status.container_statuses] == [0]

    async def told() -> bool:
        log = await stage.client.pods.log("inst-b", container=build.TENANT_CONTAINER)
        assert log in (b"", b"mine\n")
        return bool(log)

    await eventually(told)


async def test_an_instance_deleted_from_outside_is_saved_in_its_grace(stage: Stage) -> None:
    """The tenant ends first, with its last words; the agent stays until they are saved."""
    pod = await stage.instance("inst-a", TENANT)
    identities = HelperIdentities(stage.helper, bytes(32), "http://api:3000")
    await identities.deliver("inst-a", pod.metadata.uid, ANNA)
    await stage.sh("inst-a", "until test -s /workspace/count; do sleep 0.01; done")
    await stage.sh("inst-a", "echo changed > /workspace/state")
    await stage.client.delete(PODS, "inst-a")  # with the grace of its spec, two minutes

    async def last_words() -> bool:
        # A kubelet does not tell that a container has ended while its Pod is being ended.
        async with stage.helper.open_file("inst-a", "/workspace/state") as body:
            return await body.read(100) == b"empty\n"  # type: ignore[union-attr]  # it is a file

    await eventually(last_words)
    saved = await save(stage, pod)
    await gone(stage, "inst-a", 40)
    async with snapshots(stage).open_archive("anna", "shop") as (version, body):
        archive = await body.read(1 << 20)
    assert version.digest == saved.digest == hashlib.sha256(archive).hexdigest()
    names = await asyncio.to_thread(_read, archive, "workspace/state")
    assert names == b"empty\n", "what it wrote at its end is newer than what was there"


def _read(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


async def test_a_halted_tenant_can_be_deleted(stage: Stage) -> None:
    """It cannot hear that it should end; at the end of its grace it is gone all the same."""
    pod = await stage.instance("inst-a", TENANT)
    await stage.sh("inst-a", "until test -s /workspace/count; do sleep 0.01; done")
    await save(stage, pod)
    await stage.client.delete(PODS, "inst-a", grace=1)
    await gone(stage, "inst-a", 30)
