"""Agent and helper beside real tenants: on one machine, and on a real node.

operator's side (HelperClient) ─► helper's Pod ─► agent in the instance ─► the tenant's files
"""

from __future__ import annotations

import asyncio
import os

import pytest

from boilerhouse.core import claimtoken
from boilerhouse.core.errors import Terminal
from boilerhouse.node.helper.layout import POD
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.rpc.message import Body
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.client import HelperClient
from boilerhouse.tenancy.snapshots.identities import HelperIdentities
from boilerhouse.tenancy.snapshots.routes import Direct
from tests.e2e.conftest import EMBEDDED, NODE
from tests.e2e.helper_fixture import AGENT_TOKEN, Stage
from tests.e2e.tenants import eventually

KEY = bytes(32)
ANNA = Identity("anna", "shop", "claim-anna-shop", "uid-1", ())
SLEEP = "exec sleep 1000"
RSS_LIMIT = 30 << 10  # KiB


async def test_identity_arrives_late(stage: Stage) -> None:
    """A running warm instance gets its identity as files that it can read and nobody can change."""
    pod = await stage.instance("inst-a", SLEEP)
    assert await stage.sh("inst-a", "cat /run/boilerhouse/tenant || echo none") != "anna"
    identities = HelperIdentities(stage.helper, KEY, "http://api:3000")
    for _ in range(2):
        await identities.deliver("inst-a", pod.metadata.uid, ANNA)
    told = await stage.sh(
        "inst-a",
        "cd /run/boilerhouse; for f in tenant workload claim api-url; do cat $f; echo; done",
    )
    assert told.split() == ["anna", "shop", "claim-anna-shop", "http://api:3000"]
    token = await stage.sh("inst-a", "cat /run/boilerhouse/token")
    assert claimtoken.verify(KEY, token) == "uid-1"
    tried = await stage.sh(
        "inst-a",
        "echo x > /run/boilerhouse/tenant; rm /run/boilerhouse/token; mkdir /run/boilerhouse/d;"
        " cat /run/boilerhouse/tenant",
    )
    assert tried.endswith("anna")
    assert await stage.sh("inst-a", "ls /run/boilerhouse") == "\n".join(
        sorted(["tenant", "workload", "claim", "api-url", "token"])
    )
    with pytest.raises(Terminal, match="anna"):
        await identities.deliver(
            "inst-a", pod.metadata.uid, Identity("ben", "shop", "claim-ben", "uid-2", ())
        )
    now = await stage.client.get(PODS, "inst-a")
    assert [c.restart_count for c in now.status.container_statuses] == [0]


async def test_files_both_ways(stage: Stage) -> None:
    """What is written from outside is the tenant's own, and what the tenant writes can be read."""
    await stage.instance("inst-a", SLEEP)
    helper, content = stage.helper, os.urandom(1 << 20)
    await helper.write_file("inst-a", "/workspace/in/put", Body(content))
    size = await stage.sh("inst-a", "wc -c < /workspace/in/put; echo more >> /workspace/in/put")
    assert size.split() == [str(1 << 20)]
    async with helper.open_file("inst-a", "/workspace/in/put") as body:
        assert isinstance(body, Body)
        assert await body.read(2 << 20) == content + b"more\n"

    async def counted() -> bool:
        return (await helper.usage("inst-a")).used >= 1 << 20

    await eventually(counted)  # an answer may be ten seconds old
    await stage.sh("inst-a", "touch -d 2001-01-01 /workspace/in/put")
    changes = await helper.changes("inst-a", ["/workspace"])
    assert changes.newest is not None
    assert changes.newest > 1_700_000_000_000_000_000
    await helper.delete_file("inst-a", "/workspace/in/put")
    assert await stage.sh("inst-a", "ls -A /workspace/in") == ""


async def test_a_dead_tenant_has_files_too(stage: Stage) -> None:
    """The agent works while the tenant's container is down, and brings it back by a file."""
    await stage.instance(
        "inst-a", "test ! -e /workspace/die && echo v > /workspace/f && exec sleep 1000"
    )
    await stage.sh("inst-a", "until test -e /workspace/f; do sleep 0.05; done")
    await stage.helper.write_file("inst-a", "/workspace/die", Body(b""))
    await stage.sh("inst-a", "kill -9 $(pidof sleep) || pkill -9 sleep")

    def dead(pod: Pod) -> bool:
        [status] = pod.status.container_statuses
        return status.state.running is None and status.restart_count > 0

    await stage.until("inst-a", dead)
    async with stage.helper.open_file("inst-a", "/workspace/f") as body:
        assert isinstance(body, Body)
        assert await body.read(100) == b"v\n"
    await stage.helper.delete_file("inst-a", "/workspace/die")
    await stage.until("inst-a", lambda pod: pod.ready)


async def test_the_tenant_cannot_get_at_the_agents_token(stage: Stage) -> None:
    """Not by path, not through /proc, not in environments or arguments; and it is not guessed."""
    await stage.instance("inst-a", SLEEP)
    found = await stage.sh(
        "inst-a",
        "cat /run/boilerhouse-agent/token /overlay/workspace/x;"
        " for p in /proc/[0-9]*; do"
        " cat $p/root/run/boilerhouse-agent/token $p/environ $p/cmdline; ls $p/root/run; done;"
        " tr '\\0' ' ' < /proc/1/environ; echo done",
    )
    assert found.endswith("done")
    assert AGENT_TOKEN not in found
    assert "boilerhouse-agent\n" not in found


async def test_a_helper_that_is_deleted_comes_back(stage: Stage) -> None:
    """Deleted by hand, the helper is made again, and files can be reached as before."""
    await stage.instance("inst-a", SLEEP)
    first = await stage.client.get(PODS, POD)
    await stage.helper.usage("inst-a")
    await stage.client.delete(PODS, POD, grace=0)
    await stage.until(POD, lambda pod: pod.ready and pod.metadata.uid != first.metadata.uid)
    assert (await stage.helper.usage("inst-a")).complete


# A Pod's address on the node cannot be reached from outside its network.
@pytest.mark.parametrize("stage", [EMBEDDED], indirect=True)
async def test_the_helpers_port(stage: Stage) -> None:
    """On one machine the helper also listens, like any container."""
    await stage.instance("inst-a", SLEEP)
    client = HelperClient(stage.client, Direct(stage.client), Agents(stage.client))
    assert (await client.usage("inst-a")).complete


@pytest.mark.parametrize("stage", [NODE], indirect=True)  # on one machine they are part of us
async def test_agents_and_helper_are_small(stage: Stage) -> None:
    """Idle, and after some work, an agent takes at most 30 MiB; the helper hardly more."""
    await stage.instance("inst-a", SLEEP)
    script = "grep -l boilerhouse /proc/[0-9]*/cmdline | cut -d/ -f3"
    rss = f"for p in $({script}); do grep VmRSS /proc/$p/status; done"

    async def measured() -> int:
        lines = [line for line in (await stage.sh("inst-a", rss)).splitlines() if "VmRSS" in line]
        return max(int(line.split()[1]) for line in lines)

    idle = await measured()
    helper = stage.helper
    await helper.write_file("inst-a", "/workspace/big", Body(b"x" * (2 << 20)))
    await asyncio.gather(*(helper.changes("inst-a", ["/workspace"]) for _ in range(20)))
    for _ in range(5):
        async with helper.open_file("inst-a", "/workspace/big") as body:
            assert isinstance(body, Body)
            await body.read(3 << 20)
    worked = await measured()
    print(f"agent: {idle} KiB idle, {worked} KiB after work")
    assert idle <= RSS_LIMIT
    assert worked <= 64 << 10
