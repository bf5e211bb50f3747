"""Triggers in a running operator."""

from __future__ import annotations

from boilerhouse.platform.kube.resources import EVENTS
from boilerhouse.tenancy.triggers.decide import NOT_BUILT
from boilerhouse.tenancy.triggers.objects import TRIGGERS
from tests.controllers.operator_fixture import World


async def test_a_trigger_says_that_it_does_not_listen(world: World) -> None:
    """In Error within a moment, with the reason and an Event, instead of Active for ever."""
    spec = {
        "type": "cron",
        "workloadRef": "web",
        "tenant": {"static": "alice"},
        "config": {"schedule": "* * * * *"},
    }
    await world.client.create(TRIGGERS, {"metadata": {"name": "nightly"}, "spec": spec})
    found = await world.until(TRIGGERS, "nightly", lambda t: t.status.get("phase") == "Error")
    assert found.status["detail"] == NOT_BUILT
    await world.operator.events.flushed()
    (event,) = (await world.client.list(EVENTS, fields="involvedObject.name=nightly")).items
    assert (event.reason, event.type) == ("NotBuilt", "Warning")
