"""`GET …/idle`: every signal with its age, and what happens when."""

from __future__ import annotations

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import parse_time
from boilerhouse.tenancy.claims.objects import CLAIMS
from tests.unit.edge.api.conftest import Rest

PATH = "/tenants/alice/workloads/web/idle"


async def test_an_active_instance_is_explained(rest: Rest) -> None:
    """When it was claimed and last active, the deadline, and what follows it."""
    await rest.world.ready_workload(idle={"timeoutSeconds": 600})
    await rest.claim("alice")
    body = (await rest.get(PATH)).json()
    assert (body["phase"], body["state"]) == ("Active", "active")
    assert (body["timeoutSeconds"], body["action"]) == (600, "hibernate")
    assert [signal["name"] for signal in body["signals"]] == ["claim", "activity"]
    assert all(signal["counts"] for signal in body["signals"])
    assert 590 < body["secondsLeft"] <= 600
    assert parse_time(body["deadline"]) > rest.world.clock.now()
    assert "its files are saved" in body["then"]


async def test_a_call_in_flight_is_told(rest: Rest) -> None:
    """A command that runs keeps the instance, and no moment is named at which it would go."""
    await rest.world.ready_workload(idle={"timeoutSeconds": 600, "action": "destroy"})
    await rest.claim("alice")
    claim = next(iter(rest.services.informers.claims.cache.values()))
    async with rest.services.activity.busy(claim):
        body = (await rest.get(PATH)).json()
    assert (body["inFlight"], body["state"]) == (1, "active")
    assert body["why"] == "1 call is in flight"
    assert "kept until it ends" in body["then"] and "without saving" in body["then"]
    assert "deadline" not in body and "secondsLeft" not in body


async def test_a_note_from_the_future_has_no_age(rest: Rest) -> None:
    """It is told as what it is, and does not count."""
    await rest.world.ready_workload(idle={"timeoutSeconds": 600})
    await rest.claim("alice")
    claim = next(iter(rest.services.informers.claims.cache.values()))
    note = {"metadata": {"annotations": {names.LAST_ACTIVITY: "2098-01-01T00:00:00Z"}}}
    rest.services.informers.claims.observe(
        await rest.world.client.merge_patch(CLAIMS, claim.metadata.name, note)
    )
    noted = (await rest.get(PATH)).json()["signals"][1]
    assert (noted["counts"], "ageSeconds" in noted) == (False, False)
    assert "in the future" in noted["detail"]


async def test_a_workload_without_a_timeout(rest: Rest) -> None:
    """State `never`, no deadline."""
    await rest.world.ready_workload()
    await rest.claim("alice")
    body = (await rest.get(PATH)).json()
    assert body["state"] == "never"
    assert "deadline" not in body


async def test_directories_that_nobody_can_ask_are_told(rest: Rest) -> None:
    """The answer comes all the same, and says what kept the directories from being looked at."""
    await rest.world.ready_workload(
        idle={"timeoutSeconds": 600, "watchDirs": ["/workspace"]},
        filesystem={"overlayDirs": ["/workspace"]},
    )
    await rest.claim("alice")
    body = (await rest.get(PATH)).json()
    assert body["watchDirs"] == ["/workspace"]
    watched = body["signals"][-1]
    assert (watched["name"], watched["counts"]) == ("watchDirs", False)
    assert "no snapshot helper" in watched["detail"]


async def test_a_tenant_without_a_claim_is_404(rest: Rest) -> None:
    """There is nothing to explain."""
    await rest.world.ready_workload()
    answer = await rest.get(PATH)
    assert (answer.status_code, answer.json()["code"]) == (404, "ClaimNotFound")


@pytest.mark.slow
async def test_a_claim_that_is_not_active(rest: Rest) -> None:
    """Its phase is the state, its detail the reason."""
    rest.world.kubelet.behaviour = lambda *_: None
    await rest.world.ready_workload(idle={"timeoutSeconds": 600})
    await rest.claim("alice", params={"wait": 0})
    body = (await rest.get(PATH)).json()
    assert (body["phase"], body["state"]) == ("Pending", "pending")
    assert "nothing before it is Active" in body["then"]
    assert "deadline" not in body
