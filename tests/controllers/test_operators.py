"""Whole operators on one API: who works in which, and what their probes tell."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import rfc3339
from boilerhouse.core.names import AGENT_PORT, agent_secret_name
from boilerhouse.node.agent.protocol import AGENT
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.leader import Elector, LeaseTiming
from boilerhouse.platform.kube.resources import NETWORK_POLICIES as POLICIES
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.platform.kube.status import Forbidden
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.platform.rpc.message import Answer, Handler, Request
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.platform.serving.listening import bind
from boilerhouse.run.components import Dependencies, operator_of, running_components
from boilerhouse.tenancy.networks.build import INGRESS
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from tests.controllers.operator_fixture import World, opened, running, started

LED = {
    "workloads", "pools", "claims", "triggers", "secrets",
    "helper", "policies", "budgets", "deaths", "postmortems",
}  # fmt: skip
Passes = dict[str, set[Controller[Any, Any, Any]]]
LEASE = LeaseTiming(duration=3, renew_within=2.0, retry=0.2)


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """By name, the leader-only controllers that have made passes."""
    found: Passes = defaultdict(set)
    original = Controller._pass

    async def noted(self: Controller[Any, Any, Any], key: Any) -> Any:
        if self.leader_only:
            found[self.name].add(self)
        return await original(self, key)

    monkeypatch.setattr(Controller, "_pass", noted)
    return found


def means_of(world: World, route: Handler) -> Dependencies:
    return Dependencies(
        world.client, world.images, route, Agents(world.client), b"s" * 32, "http://127.0.0.1:3000"
    )


@asynccontextmanager
async def whole_operator(world: World, name: str) -> AsyncIterator[Operator]:
    means = means_of(world, _no_helper)
    elector = Elector(world.client, "boilerhouse-operator", name, timing=LEASE)
    operator = operator_of(means, elector=elector)
    async with running_components(means, operator=operator):
        yield operator


async def _no_helper(request: Request) -> Answer:
    raise Refused(503, "Unavailable", "there is no helper")


async def something_to_do(world: World) -> None:
    """Make an object for each controller that does not make its own."""
    await world.ready_workload()
    await world.full_pool()
    claim = await world.claimed(await world.claim("alice"))
    assert claim.status is not None
    spec = {
        "type": "cron",
        "workloadRef": "web",
        "tenant": {"static": "alice"},
        "config": {"schedule": "* * * * *"},
    }
    await world.client.create(TRIGGERS, {"metadata": {"name": "nightly"}, "spec": spec})
    pod = await world.client.get(PODS, claim.status.instance_id)
    at = rfc3339(world.clock.now() + timedelta(seconds=1))
    status = running(pod, pod.status.pod_ip, at)
    status["containerStatuses"][0] |= {
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": at}},
    }
    await world.client.merge_patch(
        PODS, pod.metadata.name, {"status": status}, subresource="status"
    )


async def soon(holds: Any, timeout: float = 20) -> None:
    async with asyncio.timeout(timeout):
        while not holds():  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_leader_only_controllers_work_in_one_operator_and_move(
    tmp_path: Path, at_work: Passes
) -> None:
    """All ten in the leader alone; and in the other one once the leader has gone."""
    async with opened(tmp_path / "data") as world, started(world.kubelet.manager):
        async with started(world.operator):
            await something_to_do(world)
        at_work.clear()
        async with AsyncExitStack() as leader:
            await leader.enter_async_context(whole_operator(world, "first"))
            await soon(lambda: at_work.keys() == LED)
            async with whole_operator(world, "second") as second:
                await soon(lambda: second.manager.unready() == [])
                await world.client.delete(POLICIES, INGRESS)
                await world.until(POLICIES, INGRESS, lambda policy: True)
                await asyncio.sleep(0.3)  # another one at work would have heard of it, too
                assert {name: len(one) for name, one in at_work.items()} == dict.fromkeys(LED, 1)
                await leader.aclose()
                await soon(lambda: all(len(at_work[name]) == 2 for name in LED))


async def test_what_may_not_be_listed_stops_nothing_else(
    tmp_path: Path, at_work: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that keeps NetworkPolicies from us: readiness says so, and claims are served."""
    allowed = Client.list

    async def some(self: Client, resource: Any, **options: Any) -> Any:
        if resource is POLICIES:
            raise Forbidden("networkpolicies are not yours")
        return await allowed(self, resource, **options)

    monkeypatch.setattr(Client, "list", some)
    async with (
        opened(tmp_path / "data") as world,
        started(world.kubelet.manager),
        whole_operator(world, "only") as operator,
    ):
        await world.ready_workload()
        await world.claimed(await world.claim("alice"))
        assert at_work.keys() >= {"claims", "helper", "policies"}
        (complaint,) = operator.manager.unready()
        assert "networkpolicies are not yours" in complaint


async def test_one_deaf_informer_fails_healthz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of those that were made for an operator, whichever controller lives on it."""
    made: list[Informer[Any]] = []
    original = Informer.__init__

    def noted(self: Informer[Any], *given: Any, **options: Any) -> None:
        original(self, *given, **options)
        made.append(self)

    async with opened(tmp_path / "data") as world:
        monkeypatch.setattr(Informer, "__init__", noted)
        async with whole_operator(world, "only") as operator:
            probes = operator.manager.probes()
            await soon(lambda: probes.answer("GET", "/readyz")[0] == 200)
            assert len(made) == 11
            for informer in made:
                heard, informer.last_heard = informer.last_heard, float("-inf")
                status, _, body = probes.answer("GET", "/healthz")
                assert status == 503, f"{informer.resource} is deaf"
                assert body.decode().startswith(f"{informer.resource}: heard nothing")
                informer.last_heard = heard
            assert probes.answer("GET", "/healthz")[0] == 200


async def test_an_agent_is_found_once_for_operator_and_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the claim's pass has found, the API's calls to the same instance need not look for."""
    looked_up: list[str] = []
    original = Client.get

    async def noted(self: Client, resource: Any, name: str, **options: Any) -> Any:
        if resource is SECRETS and name.startswith("agent-"):
            looked_up.append(name)
        return await original(self, resource, name, **options)

    asked: list[str] = []

    async def route(request: Request) -> Answer:
        asked.append(request.headers.get(AGENT, ""))
        return Answer(204)

    async with opened(tmp_path / "data") as world, started(world.kubelet.manager):
        monkeypatch.setattr(Client, "get", noted)
        means = means_of(world, route)
        bound = bind("127.0.0.1", [0])
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/api/v1"
        async with (
            running_components(means, operator=operator_of(means), bound=bound),
            httpx2.AsyncClient(base_url=url) as http,
        ):
            await world.ready_workload()
            claimed = await http.post("/tenants/alice/claim", json={"workload": "web"})
            name = claimed.json()["instanceId"]
            await soon(lambda: any(asked))  # the identity has been delivered
            deleted = await http.delete(f"/instances/{name}/files", params={"path": "/workspace/x"})
            assert deleted.status_code == 200
        address = f"{(await world.client.get(PODS, name)).status.pod_ip}:{AGENT_PORT}"
        assert [agent for agent in asked if agent] == [address, address]
        assert looked_up == [agent_secret_name(name)]
