"""An instance that dies leaves a post-mortem, which is told over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339
from boilerhouse.operator.keepers import deaths, postmortems
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Bare
from boilerhouse.platform.kube.resources import EVENTS, PODS, SECRET_NAMES, SECRETS
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.loop.manager import Manager
from boilerhouse.tenancy.postmortems.keep import PostMortems
from boilerhouse.tenancy.postmortems.model import COMPONENT, DIED_AT, POST_MORTEM, secret_name
from tests.controllers.operator_fixture import Kept, running, started
from tests.unit.edge.api.conftest import Rest, soon


class Keeping:
    """The two controllers, as one replica has them."""

    def __init__(self, rest: Rest) -> None:
        operator = rest.world.operator
        self.written: Informer[Bare] = Informer(
            rest.world.client, SECRET_NAMES, labels={COMPONENT: POST_MORTEM}
        )
        self.dead = PostMortems(
            rest.world.client,
            pods=operator.pod_informer,
            claims=operator.claim_informer,
            written=self.written,
            events=operator.events,
            clock=operator.clock,
        )
        kept = Kept(operator.clock, deaths(self.dead), postmortems(self.dead))
        self.manager = Manager(sources=[self.written], controllers=kept.controllers)


@pytest.fixture
async def kept(rest: Rest) -> AsyncIterator[Keeping]:
    keeper = Keeping(rest)
    async with started(keeper.manager):
        yield keeper


async def crash(rest: Rest, instance: str) -> None:
    """Have an instance's program end a while from now, and begin again."""
    at = rfc3339(rest.world.clock.now().replace(year=2090))
    pod = await rest.world.client.get(PODS, instance)
    status = running(pod, "10.0.0.1", at)
    status["containerStatuses"][0] |= {
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": at}},
    }
    await rest.world.client.merge_patch(PODS, instance, {"status": status}, subresource="status")


@pytest.mark.slow
async def test_a_crash_leaves_a_post_mortem(rest: Rest, kept: Keeping) -> None:
    """How it ended, the end of that life's log, an Event; and it outlives the instance."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    assert (await rest.get(f"/instances/{name}/post-mortem")).status_code == 404
    rest.node.last_life = ["2080-01-01T00:00:00.5Z hello", "2080-01-01T00:00:01.5Z help"]
    rest.node.lines = ["2099-01-01T00:00:00.5Z hello again"]
    await crash(rest, name)
    await rest.world.until(SECRETS, secret_name(name), lambda secret: True)
    told = (await rest.get(f"/instances/{name}/post-mortem")).json()
    assert (told["tenantId"], told["workloadRef"], told["instance"]) == ("alice", "web", name)
    assert (told["reason"], told["exitCode"], told["log"]) == ("Error", 3, "hello\nhelp\n")

    async def event() -> bool:
        return any(e.reason == "InstanceDied" for e in (await rest.world.client.list(EVENTS)).items)

    await rest.world.settles(event)
    await rest.post("/tenants/alice/release", {"workload": "web"})
    assert (await rest.get(f"/instances/{name}/post-mortem")).json() == told
    assert (await rest.get("/instances/..%2f/post-mortem")).status_code == 400


async def test_a_log_is_told_once_while_the_next_life_is_waited_for(
    rest: Rest, kept: Keeping
) -> None:
    """In back-off a node calls the same life the present and the previous one."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    rest.node.last_life = rest.node.lines = ["2080-01-01T00:00:00.5Z hello"]
    await crash(rest, name)
    await rest.world.until(SECRETS, secret_name(name), lambda secret: True)
    assert (await rest.get(f"/instances/{name}/post-mortem")).json()["log"] == "hello\n"


async def test_post_mortems_are_no_settings(rest: Rest, kept: Keeping) -> None:
    """They are neither listed among Secrets nor replaced there."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    await crash(rest, name)
    await rest.world.until(SECRETS, secret_name(name), lambda secret: True)
    listed = [secret["name"] for secret in (await rest.get("/secrets")).json()]
    assert secret_name(name) not in listed
    assert (await rest.get(f"/secrets/{secret_name(name)}")).status_code == 409


async def test_a_node_that_is_away_is_part_of_the_report(rest: Rest, kept: Keeping) -> None:
    """There is a report without a log, and it says why."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    rest.server.nodes.clear()
    await crash(rest, name)
    await rest.world.until(SECRETS, secret_name(name), lambda secret: True)
    told = (await rest.get(f"/instances/{name}/post-mortem")).json()
    assert told["log"] == "" and told["logMissing"]


async def test_only_the_last_few_are_kept(rest: Rest, kept: Keeping) -> None:
    """The oldest of a tenant and workload go; those of another tenant stay."""
    for tenant, number in [("bob", 0), *(("alice", number) for number in range(1, 8))]:
        await rest.world.client.create(
            SECRETS,
            {
                "metadata": {
                    "name": f"postmortem-inst-{number}",
                    "labels": {f"{names.GROUP}/component": POST_MORTEM, names.WORKLOAD: "web"},
                    "annotations": {
                        names.TENANT_ID: tenant,
                        DIED_AT: f"2089-01-01T00:00:0{number}Z",
                    },
                }
            },
        )

    async def swept() -> bool:
        found = (await rest.world.client.list(SECRETS)).items
        left = {s.metadata.name for s in found if s.metadata.name.startswith("postmortem-")}
        return left == {f"postmortem-inst-{number}" for number in (0, 3, 4, 5, 6, 7)}

    await rest.world.settles(swept)


async def test_another_tenants_death_is_none_of_ones_business(rest: Rest, kept: Keeping) -> None:
    """What is found under that name and is no post-mortem is not shown either."""
    await rest.world.client.create(SECRETS, {"metadata": {"name": "postmortem-x"}})
    assert (await rest.get("/instances/x/post-mortem")).status_code == 404
    with pytest.raises(NotFound):
        await rest.world.client.get(PODS, "x")


async def test_the_next_leader_writes_what_the_last_one_did_not(rest: Rest) -> None:
    """A death that was noticed while another replica led, of an instance that is gone by now."""
    next_leader = Keeping(rest)
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["instanceId"]
    await crash(rest, name)
    await soon(lambda: next_leader.dead.noticed())
    await rest.post("/tenants/alice/release", {"workload": "web"})
    await rest.world.gone(PODS, name)
    async with started(next_leader.manager):
        await rest.world.until(SECRETS, secret_name(name), lambda secret: True)


async def test_a_replica_that_does_not_lead_keeps_no_death_that_was_written(
    rest: Rest, kept: Keeping
) -> None:
    """Else it would keep every instance that ever died, and write it down again when it leads."""
    other = Keeping(rest)
    async with other.written.running():
        await rest.world.ready_workload()
        name = (await rest.claim("alice")).json()["instanceId"]
        await crash(rest, name)
        await rest.world.until(SECRETS, secret_name(name), lambda secret: True)
        await rest.post("/tenants/alice/release", {"workload": "web"})
        await rest.world.gone(PODS, name)
        await soon(lambda: not other.dead.noticed())
