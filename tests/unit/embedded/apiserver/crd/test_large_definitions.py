"""Definitions so large that compiling them would hold up everybody: beside the loop, or refused."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.crd import compiled, limits
from boilerhouse.platform.kube.wire import MERGE_PATCH
from tests.contract.driver import Api
from tests.contract.objects import crd

Body = dict[str, Any]
CRDS = "customresourcedefinitions"


def defined(properties: Body) -> Body:
    spec = {"type": "object", "properties": properties}
    return crd("widgets", "Widget", {"type": "object", "properties": {"spec": spec}})


def ruled(count: int, text: str = "self > {}") -> Body:
    rules = [{"rule": text.format(n)} for n in range(count)]
    return {"a": {"type": "integer", "x-kubernetes-validations": rules}}


def nested(depth: int) -> Body:
    schema: Body = {"type": "string", "default": "x"}
    for _ in range(depth):
        schema = {"type": "object", "default": {}, "properties": {"a": schema}}
    return schema


def widget(spec: Body) -> Body:
    return {
        "kind": "Widget",
        "apiVersion": "contract.example.com/v1",
        "metadata": {"name": "w"},
        "spec": spec,
    }


LIST = "self in [" + ",".join(map(str, range(200_000))) + "]"
TOO_LARGE = {
    "rules": (ruled(limits.RULES + 1), "10001 validation rules, at most 10000"),
    "long rules": (ruled(1000, " || ".join(["self > {0}"] * 100)), "code points in validation"),
    "a list literal": (ruled(1, LIST.replace("{", "{{")), "code point size exceeds limit: size:"),
    "patterns": (
        {"a": {"type": "string", "anyOf": [{"pattern": f"^a{n}$"} for n in range(10_001)]}},
        "10001 patterns, at most 10000",
    ),
    "long patterns": (
        {f"p{n}": {"type": "string", "pattern": "a" * 90_000} for n in range(6)},
        "bytes in patterns",
    ),
    "defaults in defaults": ({f"k{n}": nested(20) for n in range(100)}, "schemas with defaults"),
}


@pytest.mark.parametrize(("properties", "said"), TOO_LARGE.values(), ids=TOO_LARGE)
async def test_what_is_too_large_is_refused_before_it_is_compiled(
    api: Api, properties: Body, said: str
) -> None:
    """422 with the count and the limit, in no time; whether it is new or a change."""
    began = time.thread_time()
    answer = await api.create(CRDS, defined(properties))
    assert said in answer.status(422, "Invalid")["message"]
    assert time.thread_time() - began < 1
    (await api.create(CRDS, defined({"a": {"type": "string"}}))).ok()
    changed = defined(properties)["spec"]
    path = api.path(CRDS, "widgets.contract.example.com")
    answer = await api.call("PATCH", path, {"spec": changed}, content=MERGE_PATCH)
    assert said in answer.status(422, "Invalid")["message"]


LARGE = {
    "rules": ruled(3000),
    "patterns": {"a": {"type": "string", "anyOf": [{"pattern": f"^a{n}$"} for n in range(3000)]}},
    "fields": {f"p{n}": {"type": "string", "description": "x" * 30} for n in range(8000)},
}


@pytest.mark.slow
@pytest.mark.parametrize("properties", LARGE.values(), ids=LARGE)
async def test_what_is_large_is_compiled_beside_the_loop(api: Api, properties: Body) -> None:
    """It is taken and served at once, and others are answered meanwhile."""
    asked = asyncio.create_task(api.create(CRDS, defined(properties)))
    answered = 0
    while not asked.done():
        (await api.call("GET", "/api/v1/namespaces/default")).ok()
        await asyncio.sleep(0.001)
        answered += 1
    (await asked).ok()
    assert answered > 10
    (await api.create("widgets", widget({}))).ok()


async def test_no_turn_of_the_loop_has_much_of_a_large_definition(api: Api) -> None:
    """It is read and checked in threads before it is refused."""
    body = json.dumps(defined(ruled(limits.RULES + 1))).encode()  # the caller's work, not counted
    gc.disable()  # a collection would be a turn as long as any
    try:
        whole, longest = time.process_time(), 0.0
        asked = asyncio.create_task(api.call("POST", api.path(CRDS), body))
        while not asked.done():
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
        (await asked).status(422, "Invalid")
        assert longest < (time.process_time() - whole) / 10
    finally:
        gc.enable()


async def test_a_large_definition_is_judged_in_every_way_it_may_come(api: Api) -> None:
    """Created, replaced, patched: its rules hold each time, and a wrong one is named."""
    path = api.path(CRDS, "widgets.contract.example.com")
    (await api.create(CRDS, defined(ruled(500)))).ok()
    found = (await api.call("GET", path)).ok()
    found["spec"] = defined(ruled(501))["spec"]
    (await api.call("PUT", path, found)).ok()
    (await api.call("PATCH", path, {"spec": defined(ruled(502))["spec"]}, content=MERGE_PATCH)).ok()
    broken = defined(ruled(503, "self > {} &&"))["spec"]
    answer = await api.call("PATCH", path, {"spec": broken}, content=MERGE_PATCH)
    assert "x-kubernetes-validations[502]" in answer.status(422, "Invalid")["message"]
    refused = (await api.create("widgets", widget({"a": 501}))).status(422, "Invalid")
    assert "failed rule: self > 501" in refused["message"]
    (await api.create("widgets", widget({"a": 502}))).ok()


@pytest.mark.slow
async def test_many_large_definitions_at_a_time(api: Api) -> None:
    """They push each other out of what is remembered, and all are taken."""
    made = []
    for number in range(compiled._KEPT * 3):
        definition = crd(
            f"w{number}s", f"W{number}",
            {"type": "object", "properties": ruled(300, f"self > {number} + {{}}")},
        )  # fmt: skip
        made.append(api.create(CRDS, definition))
    for answer in await asyncio.gather(*made):
        answer.ok()
