"""Fair shares: what one tenant or one caller may take, and what is left for the others."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from boilerhouse.edge.api.auth import AN_ADMIN, Caller
from boilerhouse.edge.api.errors import Problem
from boilerhouse.edge.api.services import COMMANDS, Services
from boilerhouse.edge.api.shares import Shares
from tests.unit.edge.api.conftest import Rest, soon
from tests.unit.edge.api.node import hang

ANN = Caller(admin=False, tenant="ann", workload="web")
BOB = Caller(admin=False, tenant="bob", workload="web")


def fill(shares: Shares, held: ExitStack, caller: Caller, tenant: str = "") -> int:
    """Take places until one is refused; return how many there were."""
    for count in range(1000):
        try:
            held.enter_context(shares.place(caller, tenant))
        except Problem:
            return count
    raise AssertionError("it was never refused")


def test_a_token_takes_a_quarter_and_its_tenant_no_more_by_the_key() -> None:
    """Whoever calls, one tenant's part is a quarter; other tenants are not affected."""
    shares = Shares("commands", 64)
    with ExitStack() as held:
        assert fill(shares, held, ANN, "ann") == 16
        assert fill(shares, held, AN_ADMIN, "ann") == 0
        assert fill(shares, held, AN_ADMIN, "bob") == 16
        assert fill(shares, held, BOB, "bob") == 0
        assert shares.taken == 32
    assert shares.taken == 0
    with ExitStack() as held:  # all of it was given back
        assert fill(shares, held, ANN, "ann") == 16


def test_the_key_leaves_a_quarter_for_tokens() -> None:
    """A platform's calls cannot shut out what instances may do for themselves."""
    shares = Shares("commands", 64)
    with ExitStack() as held:
        assert fill(shares, held, AN_ADMIN) == 48
        assert fill(shares, held, ANN, "ann") == 16
        with pytest.raises(Problem, match="64 commands are open already, which is all"):
            held.enter_context(shares.place(BOB, "bob"))


def test_the_words_name_the_bound() -> None:
    """429 with Retry-After, and which of the bounds it was."""
    shares = Shares("logs", 8)
    with ExitStack() as held:
        fill(shares, held, ANN, "ann")
        with pytest.raises(
            Problem, match="this token has 2 logs open already, of 8 in all"
        ) as told:
            held.enter_context(shares.place(ANN, "ann"))
        assert told.value.status == 429 and int(told.value.headers["retry-after"]) >= 1
        with pytest.raises(Problem, match="tenant 'ann' has 2 logs open already, of 8 in all"):
            held.enter_context(shares.place(AN_ADMIN, "ann"))
        fill(shares, held, AN_ADMIN)
        with pytest.raises(Problem, match="this key has 6 logs open already, of 8 in all"):
            held.enter_context(shares.place(AN_ADMIN))


def test_a_few_places_are_at_least_one_each() -> None:
    shares = Shares("things", 1)
    with ExitStack() as held:
        assert fill(shares, held, ANN, "ann") == 1


async def test_one_tenants_commands_leave_room_for_anothers(rest: Rest) -> None:
    """64 at once in one instance: a quarter runs, the others are 429, and bob's command works."""
    await rest.world.ready_workload()
    ann = (await rest.claim("ann")).json()["instanceId"]
    bob = (await rest.claim("bob")).json()["instanceId"]
    rest.node.programs["sleep"] = hang
    shares = rest.services.commands

    async def run(instance: str, *command: str) -> Any:
        return await rest.post(f"/instances/{instance}/exec", {"command": command})

    running = [asyncio.create_task(run(ann, "sleep")) for _ in range(COMMANDS)]
    try:
        await soon(lambda: sum(task.done() for task in running) == COMMANDS * 3 // 4)
        refused = {task.result().status_code for task in running if task.done()}
        assert refused == {429}
        assert shares.taken == COMMANDS // 4
        assert (await run(bob, "echo")).status_code == 200
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_everything_that_lasts_has_its_bound(rest: Rest) -> None:
    """Logs, files, archives, listeners, waiting calls: who finds no place is told 429."""
    await rest.world.ready_workload()
    ann = (await rest.claim("ann")).json()["instanceId"]
    base = "/tenants/ann/workloads/web"
    asked: dict[str, tuple[str, str, Any]] = {
        "logs": ("GET", f"/instances/{ann}/logs?follow=true", None),
        "files": ("GET", f"/instances/{ann}/files?path=/x", None),
        "uploads": ("PUT", f"{base}/snapshots", {}),
        "downloads": ("GET", f"{base}/snapshots/current/archive", None),
        "listeners": ("GET", "/events", None),
        "held": ("POST", "/tenants/ann/claim", {"workload": "web"}),
        "proxied": ("GET", f"{base}/proxy/", None),
    }
    for field, (method, path, body) in asked.items():
        with ExitStack() as held:
            fill(_shares(rest.services, field), held, AN_ADMIN)
            answer = await rest.http.request(method, f"/api/v1{path}", json=body)
            assert answer.status_code == 429, (field, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
            assert "this key has" in answer.json()["error"], answer.text


def _shares(services: Services, field: str) -> Shares:
    found = getattr(services, field)
    assert isinstance(found, Shares)
    return found
