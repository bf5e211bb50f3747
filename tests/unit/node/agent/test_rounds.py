"""Orders that come late: which of them an agent still carries out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.unit.node.agent.agent_fixture import Rig, Told, running

pytestmark = pytest.mark.processes


async def save(rig: Rig, number: int, identifier: str = "a1", known: str = "") -> Told:
    query = (("id", identifier), ("known", known), ("round", str(number)))
    return await rig.ask("POST", "/save", *query)


async def thaw(rig: Rig, number: int) -> Told:
    return await rig.ask("POST", "/thaw", ("round", str(number)))


async def committed(rig: Rig, number: int) -> str:
    digest = hashlib.sha256((await save(rig, number)).body).hexdigest()
    assert (await rig.saved(digest)).status == 204
    return digest


def code(told: Told) -> str:
    return str(json.loads(told.body)["code"])


async def test_a_save_that_comes_late_freezes_nobody(rig: Rig) -> None:
    """The tenant has got its instance back since."""
    await save(rig, 1)
    assert (await thaw(rig, 2)).status == 204
    late = await save(rig, 1, "a2")
    assert (late.status, code(late)) == (409, "stale-round")
    assert not (await rig.state()).frozen


async def test_a_thaw_that_comes_late_lets_nobody_run(rig: Rig) -> None:
    """What the tenant wrote from then on would be in no snapshot."""
    await committed(rig, 3)
    for number, word in ((2, "stale-round"), (3, "saved")):
        late = await thaw(rig, number)
        assert (late.status, code(late)) == (409, word)
    assert (await rig.state()).frozen
    assert (await thaw(rig, 4)).status == 204
    assert not (await rig.state()).frozen


async def test_a_thaw_makes_the_save_before_it_void(rig: Rig) -> None:
    """The helper that got its bytes is told so, and calls it no success."""
    told = await save(rig, 1)
    assert (await thaw(rig, 2)).status == 204
    answer = await rig.saved(hashlib.sha256(told.body).hexdigest())
    assert answer.status >= 400
    assert not (await rig.state()).frozen


async def test_a_second_save_that_fails_leaves_the_first_as_it_was(rig: Rig) -> None:
    """Two operators save in the same round, and one of them is about to delete the Pod."""
    await committed(rig, 1)
    again = await save(rig, 1, "a2", known="0" * 64)
    assert again.headers["content-type"] == "application/gzip"
    refused = await thaw(rig, 1)  # by the helper, whose volume is full
    assert (refused.status, code(refused)) == (409, "saved")
    assert (await rig.state()).frozen
    assert "thaw" not in rig.tenants.story


async def test_rounds_outlive_an_agent(tmp_path: Path) -> None:
    """They are on the disk before anything is done."""
    async with running(tmp_path) as rig:
        await save(rig, 7)
    async with running(tmp_path) as rig:
        assert code(await save(rig, 6, "a2")) == "stale-round"
        assert (await save(rig, 7, "a3")).status == 200


async def test_orders_without_a_number_are_taken_as_they_come(rig: Rig) -> None:
    """And what is no number is refused."""
    await committed(rig, 2)
    assert (await rig.ask("POST", "/thaw")).status == 204
    assert (await rig.save(identifier="a9")).status == 200
    wrong = await rig.ask("POST", "/thaw", ("round", "first"))
    assert (wrong.status, code(wrong)) == (400, "bad-round")
