"""Requests passed on to a tenant's program: activity, waking, and what is kept apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from boilerhouse.core import names
from boilerhouse.platform.kube.wire import Reply
from tests.unit.edge.api.conftest import KEY, Rest

EXPOSED = {"access": "none", "expose": [{"guest": 8080}]}
AT = "/tenants/ada/workloads/web/proxy"


async def claimed(rest: Rest, **changes: Any) -> str:
    """Have ada's instance; return the name of her claim."""
    await rest.world.ready_workload(network=EXPOSED, **changes)
    answer = await rest.claim("ada")
    assert answer.status_code == 201, answer.text
    return names.claim_name("ada", "web")


async def test_a_request_and_its_answer_pass(rest: Rest) -> None:
    """Method, path, query, body and headers arrive; status, headers and body come back."""
    await claimed(rest)
    told = {"content-type": "text/x-tea", "x-pot": "small", "date": "of the program"}
    rest.node.page = Reply(418, b"tea", told)
    answer = await rest.http.request(
        "PUT", f"/api/v1{AT}/a/b%20c", params=[("q", "1"), ("q", "2")],
        content=b"leaves", headers={"x-kind": "green"},
    )  # fmt: skip
    assert (answer.status_code, answer.content) == (418, b"tea")
    assert (answer.headers["content-type"], answer.headers["x-pot"]) == ("text/x-tea", "small")
    assert "date" not in answer.headers  # the server that sends it adds its own
    [(port, path, request)] = rest.node.asked
    assert (port, path, request.method, request.body) == ("8080", "/a/b c", "PUT", b"leaves")
    assert request.params("q") == ["1", "2"]
    assert request.headers["x-kind"] == "green"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE"])
async def test_the_root_is_there_for_every_method(rest: Rest, method: str) -> None:
    """With and without a slash at the end."""
    await claimed(rest)
    for path in (AT, f"{AT}/"):
        answer = await rest.http.request(method, f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
    assert [(path, request.method) for _, path, request in rest.node.asked] == [("/", method)] * 2


async def test_neither_side_gets_what_is_not_its_own(keyed: Rest) -> None:
    """The program sees no key and no cookie; a page of it gets none, and no origin but its own."""
    keyed.http.headers["authorization"] = f"Bearer {KEY}"
    await claimed(keyed)
    keyed.node.page = Reply(
        200, b"<script>", {
            "content-type": "text/html", "set-cookie": "a=b", "clear-site-data": "*",
            "content-security-policy": "img-src 'none'",
        },
    )  # fmt: skip
    answer = await keyed.get(AT, headers={"cookie": "session=1"})
    [(_, _, request)] = keyed.node.asked
    assert not {"authorization", "cookie"} & request.headers.keys()
    assert not {"set-cookie", "clear-site-data"} & answer.headers.keys()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox ") and policy.endswith(", img-src 'none'")
    assert "allow-same-origin" not in policy


@pytest.mark.slow
async def test_a_request_is_activity_from_beginning_to_end(rest: Rest) -> None:
    """An answer that goes on keeps its instance from being idle."""
    name = await claimed(rest, idle={"timeoutSeconds": 2})
    rest.node.page_waits = asyncio.Event()
    asking = asyncio.create_task(rest.get(AT))
    await asyncio.sleep(4)
    assert (await rest.get(f"/claims/{name}")).json()["status"]["phase"] == "Active"
    rest.node.page_waits.set()
    assert (await asking).content == b"hello"
    await rest.world.claimed(name, "Released")


@pytest.mark.slow
async def test_who_went_idle_is_woken(rest: Rest) -> None:
    """The request waits for the revived instance and is answered by it."""
    name = await claimed(rest, idle={"timeoutSeconds": 1})
    before = await rest.world.claimed(name, "Released")
    answer = await rest.get(AT)
    assert (answer.status_code, answer.content) == (200, b"hello")
    after = await rest.world.claimed(name)
    assert after.metadata.uid != before.metadata.uid


async def test_who_was_released_is_not_woken(rest: Rest) -> None:
    """Only a claim brings back what somebody gave up; nothing was ever asked of an instance."""
    await claimed(rest)
    assert (await rest.post("/tenants/ada/release", {"workload": "web"})).status_code == 200
    answer = await rest.get(AT)
    assert (answer.status_code, answer.json()["code"]) == (404, "ClaimNotFound")
    assert not rest.node.asked


async def test_what_cannot_be_reached_is_said(rest: Rest) -> None:
    """No such tenant id, no claim, nothing exposed: each by its own name."""
    await rest.world.ready_workload("quiet", network={"access": "none"})
    assert (await rest.claim("ada", "quiet")).status_code == 201
    for path, status, code in (
        ("/tenants/.a/workloads/quiet/proxy", 400, "BadTenantId"),
        ("/tenants/bob/workloads/quiet/proxy/x", 404, "ClaimNotFound"),
        ("/tenants/ada/workloads/quiet/proxy", 409, "NothingExposed"),
    ):
        answer = await rest.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, code), path


async def test_too_much_at_once_is_refused(rest: Rest) -> None:
    """A body above the limit is 413, and never reaches the instance."""
    await claimed(rest)
    answer = await rest.http.post(f"/api/v1{AT}", content=b"x" * (4 << 20))
    assert answer.status_code == 413
    assert not rest.node.asked
