"""Quotas stay exact whatever is written; limit ranges fill in and bound."""

from __future__ import annotations

import asyncio
from typing import Any

from boilerhouse.core.clock import new_rng
from tests.contract.driver import Api
from tests.unit.embedded.apiserver.conftest import Embedded, Start

Body = dict[str, Any]


def pod(name: str, cpu: str = "100m", memory: str = "1Mi") -> Body:
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": memory}}
    container = {"name": "c", "image": "x", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def _quota(api: Api, name: str = "q", **hard: str) -> None:
    spec = {
        "hard": {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    }
    (await api.create("resourcequotas", {"metadata": {"name": name}, "spec": spec})).ok()


async def _used(api: Api, name: str = "q") -> Body:
    used: Body = (await api.get("resourcequotas", name)).ok()["status"]["used"]
    return used


async def test_what_is_there_is_counted_when_a_quota_is_made(api: Api) -> None:
    """A quota does not start at zero in a namespace that is in use."""
    await api.create("pods", pod("a", cpu="250m"))
    await api.create("pods", pod("b", cpu="500m"))
    await _quota(api, pods="5", requests_cpu="2", count__pods="9")
    assert await _used(api) == {"count/pods": "2", "pods": "2", "requests.cpu": "750m"}


async def test_concurrent_creates_cannot_exceed_a_quota(api: Api) -> None:
    """Of twenty at once exactly as many as fit are taken; the others hear what is exceeded."""
    await _quota(api, pods="7")
    answers = await asyncio.gather(*[api.create("pods", pod(f"p{n}")) for n in range(20)])
    assert sorted(answer.code for answer in answers) == [201] * 7 + [403] * 13
    refused = next(answer for answer in answers if answer.code == 403)
    assert (
        "exceeded quota: q, requested: pods=1, used: pods=7, limited: pods=7"
        in refused.status(403, "Forbidden")["message"]
    )
    assert await _used(api) == {"pods": "7"}


async def test_usage_is_exact_after_anything(start: Start) -> None:
    """After many creates, deletes, refusals and phase changes, and a restart, `used` is what a
    recount gives."""
    random = new_rng(7)
    async with start() as embedded:
        api = embedded.api
        await _quota(api, pods="6", requests_cpu="700m", limits_memory="1Gi")
        for step in range(120):
            name = f"p{random.randrange(8)}"
            action = random.choice(["create", "delete", "finish", "refuse"])
            if action == "create":
                await api.create("pods", pod(name, cpu=f"{random.randrange(50, 200)}m"))
            elif action == "delete":
                await api.delete("pods", name)
            elif action == "finish":
                await api.patch("pods", name, {"status": {"phase": "Succeeded"}}, "status")
            else:
                assert (await api.create("pods", pod(f"big{step}", cpu="9"))).code == 403
        before = await _used(api)
    async with start() as embedded:
        assert await _used(embedded.api) == before
        await _quota(embedded.api, "recount", pods="9", requests_cpu="9", limits_memory="9Gi")
        assert await _used(embedded.api, "recount") == before


async def test_a_pod_must_state_what_a_quota_counts(api: Api) -> None:
    """What is left open could not be counted."""
    await _quota(api, requests_cpu="1", limits_cpu="1")
    body = pod("a")
    body["spec"]["containers"].append({"name": "d", "image": "x"})
    message = (await api.create("pods", body)).status(403, "Forbidden")["message"]
    assert message.endswith(
        "failed quota: q: must specify limits.cpu for: c,d; requests.cpu for: d"
    )


async def test_scopes_choose_pods(api: Api) -> None:
    """A BestEffort quota counts the Pods that ask for nothing, and only those."""
    spec = {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}
    (await api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": spec})).ok()
    assert (await api.create("pods", pod("asks"))).code == 201
    body = {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    (await api.create("pods", body)).status(403, "Forbidden")


async def test_scopes_we_do_not_honour_are_refused_by_name(api: Api) -> None:
    """Better no quota than one that does not hold."""
    spec = {"hard": {"pods": "0"}, "scopes": ["PriorityClass"]}
    answer = await api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
    assert "PriorityClass" in answer.status(422, "Invalid")["message"]


async def test_every_breach_of_a_limit_range_is_told(api: Api) -> None:
    """All bounds are checked, not the first."""
    limits = [{"type": "Container", "min": {"cpu": "200m"}, "max": {"memory": "1Mi"}}]
    body = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    (await api.create("limitranges", body)).ok()
    message = (await api.create("pods", pod("a", cpu="100m", memory="2Mi"))).status(
        403, "Forbidden"
    )["message"]
    assert "minimum cpu usage per Container is 200m, but request is 100m" in message
    assert "maximum memory usage per Container is 1Mi, but limit is 2Mi" in message


async def test_a_failed_create_costs_nothing(embedded: Embedded) -> None:
    """A name that is taken, or a dry run, does not move the count."""
    api = embedded.api
    await _quota(api, pods="3")
    await api.create("pods", pod("a"))
    assert (await api.create("pods", pod("a"))).code == 409
    assert (await api.create("pods", pod("b"), dryRun="All")).code == 201
    assert await _used(api) == {"pods": "1"}
