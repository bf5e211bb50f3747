"""YAML takes a thousand times as long as JSON: read and written beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
import yaml

from boilerhouse.embedded.apiserver.request import rendering
from boilerhouse.platform.kube.wire import YAML
from tests.contract.driver import Answer, Api

pytestmark = pytest.mark.slow

DATA = {f"key-{number}": f"value-{number}" for number in range(20_000)}
LARGE = yaml.dump(
    {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "large"}, "data": DATA},
    Dumper=rendering._Dumper,
).encode()


async def meanwhile(api: Api, asked: Awaitable[Answer]) -> tuple[Answer, int]:
    """Ask something else again and again until the first is answered."""
    task = asyncio.ensure_future(asked)
    answered = 0
    while not task.done():
        (await api.call("GET", "/api/v1/namespaces/default")).ok()
        await asyncio.sleep(0.001)
        answered += 1
    return task.result(), answered


async def test_a_large_body_of_yaml_is_read_beside_the_loop(api: Api) -> None:
    """It is stored as it was sent, and others are answered meanwhile."""
    asked = api.call("POST", api.path("configmaps"), LARGE, content=YAML)
    answer, others = await meanwhile(api, asked)
    assert answer.ok()["data"] == DATA
    assert others > 5


async def test_a_large_body_that_is_no_object_is_refused_as_a_small_one(api: Api) -> None:
    answer = await api.call("POST", api.path("configmaps"), LARGE + b"data: [", content=YAML)
    message = answer.status(400, "BadRequest")["message"]
    assert "must be of type ConfigMap" in message


async def test_a_large_answer_in_yaml_is_written_beside_the_loop(api: Api) -> None:
    (await api.call("POST", api.path("configmaps"), LARGE, content=YAML)).ok()
    asked = api.call("GET", api.path("configmaps", "large"), accept=YAML)
    answer, others = await meanwhile(api, asked)
    assert answer.code == 200
    assert others > 5


async def test_an_answer_too_large_for_yaml_says_what_to_do(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gigabytes of memory and minutes would be needed for a list of tens of thousands."""
    (await api.call("POST", api.path("configmaps"), LARGE, content=YAML)).ok()
    monkeypatch.setattr(rendering, "YAML_LIMIT", 1 << 18)
    answer = await api.call("GET", api.path("configmaps"), accept=YAML)
    assert "ask for JSON" in answer.status(406, "NotAcceptable")["message"]
