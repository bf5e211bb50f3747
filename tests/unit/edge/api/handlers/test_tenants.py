"""Claim and release over HTTP: S1's story, its statuses, and every wrong way to ask."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from boilerhouse.core import names
from boilerhouse.core.clock import rfc3339_micro
from boilerhouse.platform.kube.resources import Key
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.unit.edge.api.conftest import Rest, soon


async def test_a_cold_claim_is_made_and_a_second_one_finds_it(rest: Rest) -> None:
    """201 with S1's fields for the first, 200 and `existing` for the same instance after."""
    await rest.world.ready_workload()
    made = await rest.claim("alice")
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["tenantId"] == "alice"
    assert body["phase"] == "Active"
    assert body["source"] == "cold"
    assert body["instanceId"].startswith("inst-alice-web-")
    assert body["endpoint"]["port"] == 8080
    assert body["claimedAt"].endswith("Z")
    again = await rest.claim("alice")
    assert (again.status_code, again.json()["source"]) == (200, "existing")
    assert again.json()["instanceId"] == body["instanceId"]


async def test_a_claim_takes_a_warm_instance(rest: Rest) -> None:
    """With a full pool the source is `pool`."""
    await rest.world.ready_workload()
    await rest.world.full_pool()
    made = await rest.claim("alice")
    assert (made.status_code, made.json()["source"]) == (201, "pool")


async def test_the_timings_sum_to_their_total(rest: Rest) -> None:
    """Every millisecond of the answer belongs to a named stage."""
    await rest.world.ready_workload()
    timings = (await rest.claim("alice")).json()["timings"]
    total = timings.pop("total")
    assert {"lookup", "create", "bind", "api"} <= set(timings)
    assert abs(sum(timings.values()) - total) < 0.01


@pytest.mark.slow
async def test_simultaneous_claims_of_one_tenant_give_one_instance(rest: Rest) -> None:
    """As many callers as may wait for one tenant, one Pod, and nobody fails."""
    await rest.world.ready_workload()
    answers = await asyncio.gather(*(rest.claim("alice") for _ in range(250)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["instanceId"] for answer in answers}) == 1
    assert len(await rest.world.pods(tenant="alice")) == 1


@pytest.mark.slow
async def test_a_claim_that_takes_longer_is_202(rest: Rest) -> None:
    """After `wait` the answer is Pending, with the place to look again."""
    rest.world.kubelet.behaviour = lambda *_: None
    await rest.world.ready_workload()
    pending = await rest.claim("alice smith", params={"wait": 0})
    assert pending.status_code == 202
    assert pending.json()["phase"] == "Pending"
    where = pending.headers["location"]
    assert where == "/api/v1/tenants/alice%20smith"
    shown = await rest.http.get(where)
    assert shown.json()["claims"][0]["phase"] == "Pending"


async def test_a_release_ends_with_the_instance_gone(rest: Rest) -> None:
    """200, Released, nothing saved; the tenant has no claim any more."""
    await rest.world.ready_workload()
    instance = (await rest.claim("alice")).json()["instanceId"]
    released = await rest.post("/tenants/alice/release", {"workloadRef": "web"})
    assert released.status_code == 200
    body = released.json()
    assert (body["phase"], body["status"], body["snapshot"]) == ("Released", "released", None)
    assert (await rest.get("/tenants/alice")).status_code == 404
    await rest.world.settles(lambda: _gone(rest, instance))
    again = await rest.post("/tenants/alice/release", {"workload": "web"})
    assert (again.status_code, again.json()["code"]) == (404, "ClaimNotFound")


async def _gone(rest: Rest, instance: str) -> bool:
    return (await rest.get(f"/instances/{instance}")).status_code == 404


async def test_a_claim_in_error_is_a_conflict_with_its_reason(rest: Rest) -> None:
    """A workload in Error cannot be claimed: 409, the detail, and a code."""
    rest.world.images.absent.add("nope")
    await rest.world.workload("broken", image={"ref": "nope"})
    await rest.world.until(WORKLOADS, "broken", lambda w: w.status.get("phase") == "Error")
    answer = await rest.claim("alice", "broken")
    assert (answer.status_code, answer.json()["code"]) == (409, "WorkloadInError")
    assert "nope" in answer.json()["error"]
    assert answer.json()["details"]["phase"] == "Error"


async def test_an_unknown_workload_is_named(rest: Rest) -> None:
    """404 with the workload's name, and no claim is left behind."""
    answer = await rest.claim("alice", "nothing")
    assert answer.status_code == 404
    assert "'nothing'" in answer.json()["error"]
    assert answer.json()["code"] == "WorkloadNotFound"
    assert (await rest.world.client.list(CLAIMS)).items == []


async def test_bad_bodies_are_400(rest: Rest) -> None:
    """No JSON, the wrong JSON, unknown fields, no workload, two workloads: never a 500."""
    for body in (b"{", b"", b"[]", b"3", b'{"workload": 3}', b'{"worklaod": "web"}', b"\xff\xfe"):
        answer = await rest.http.post(
            "/api/v1/tenants/a/claim", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400, (body, answer.text)
        assert answer.json()["error"]
    assert (await rest.post("/tenants/a/claim", {})).status_code == 400
    both = {"workload": "a", "workloadRef": "b"}
    assert (await rest.post("/tenants/a/claim", both)).status_code == 400
    for wait in ("-1", "301", "soon"):
        assert (await rest.claim("a", params={"wait": wait})).status_code == 400


async def test_tenant_ids_follow_the_one_rule(rest: Rest) -> None:
    """What the rule refuses is 400 with the rule; what it allows reaches that very tenant."""
    await rest.world.ready_workload()
    refused = [
        "", "..", "%2e%2e", "..%2F..%2Fetc", "a%2Fb", "a%5Cb", "a%0Ab", "%00", "x" * 10_000, ".a",
        "a.", "a%20", "%FF", "e%CC%81",
    ]  # fmt: skip
    for text in refused:
        answer = await rest.http.post(
            f"http://127.0.0.1:3000/api/v1/tenants/{text}/claim", json={"workload": "web"}
        )
        assert answer.status_code in (400, 404, 405), (text, answer.text)
        assert "error" in answer.json()
        if text not in ("", ".."):  # which the client itself makes another path
            assert answer.status_code == 400, (text, answer.text)
            assert "tenant id" in answer.json()["error"], text
    for text, raw in (("%C3%A9", "é"), ("a%20b", "a b"), ("a:b@c", "a:b@c"), ("%252F", "%2F")):
        answer = await rest.claim(text)
        assert answer.status_code == 201, (text, answer.text)
        assert answer.json()["tenantId"] == raw
    assert len(await rest.world.pods()) == 4


async def test_tenants_are_listed_with_their_claims(rest: Rest) -> None:
    """One entry per tenant, by id, with each of its claims."""
    await rest.world.ready_workload("web")
    await rest.world.ready_workload("worker")
    for tenant, workload in (("bob", "web"), ("alice", "worker"), ("alice", "web")):
        await rest.claim(tenant, workload)
    listed = (await rest.get("/tenants")).json()
    assert [tenant["tenantId"] for tenant in listed] == ["alice", "bob"]
    assert [claim["workloadRef"] for claim in listed[0]["claims"]] == ["web", "worker"]
    one = (await rest.get("/tenants/alice")).json()
    assert one["claims"][0]["phase"] == "Active"
    assert (await rest.get("/tenants/carol")).status_code == 404


@pytest.mark.slow
async def test_a_claim_counts_as_activity(rest: Rest) -> None:
    """The annotation is on the Claim soon after, once for many calls."""
    await rest.world.ready_workload()
    name = (await rest.claim("alice")).json()["claim"]
    for _ in range(5):
        await rest.claim("alice")
    key = Key(rest.world.client.namespace, name)

    def noted() -> bool:
        claim = rest.services.informers.claims.cache.get(key)
        return claim is not None and names.LAST_ACTIVITY in claim.metadata.annotations

    await soon(noted)


@pytest.mark.slow
async def test_a_caller_that_hangs_up_stops_waiting(rest: Rest) -> None:
    """The wait for a claim ends with the connection; the claim itself stays."""
    rest.world.kubelet.behaviour = lambda *_: None
    await rest.world.ready_workload()
    async with rest.served() as address:
        host, port = address.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = b'{"workload":"web"}'
        writer.write(
            b"POST /api/v1/tenants/alice/claim?wait=60 HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()
        name = names.claim_name("alice", "web")
        await rest.world.until(CLAIMS, name, lambda claim: True)
        await soon(lambda: _waiting() == 1)
        writer.close()
        await soon(lambda: _waiting() == 0)
    assert (await rest.world.client.get(CLAIMS, name)).spec.tenant_id == "alice"


def _waiting() -> int:
    return sum(task.get_name() == "hang-up" for task in asyncio.all_tasks())


async def test_a_claim_that_comes_just_too_late_gets_the_next_instance(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Released between being found and being noted as active: the caller gets one that lives."""
    await rest.world.ready_workload(idle={"timeoutSeconds": 60})
    first = (await rest.claim("alice")).json()
    await rest.services.activity.flush()
    name = first["claim"]
    long_ago = rfc3339_micro(rest.world.clock.now() - timedelta(seconds=59))
    patch = {"metadata": {"annotations": {names.LAST_ACTIVITY: long_ago}}}
    await rest.world.client.merge_patch(CLAIMS, name, patch)
    noting = rest.services.activity.noted

    async def too_late(claim: Claim) -> Claim | None:
        if claim.metadata.uid == uid:
            await rest.world.client.delete(CLAIMS, name)
            await rest.world.gone(CLAIMS, name)
        return await noting(claim)

    uid = (await rest.world.client.get(CLAIMS, name)).metadata.uid
    monkeypatch.setattr(rest.services.activity, "noted", too_late)
    second = await rest.claim("alice")
    assert second.status_code == 201, second.text
    assert second.json()["instanceId"] != first["instanceId"]


async def test_a_claim_under_another_name_is_served_like_any(rest: Rest) -> None:
    """What kubectl applied is the tenant's: listed, claimed, run in, released."""
    await rest.world.ready_workload()
    await rest.world.claim("alice", name="by-hand")
    await rest.world.claimed("by-hand")
    claimed = await rest.claim("alice")
    assert (claimed.status_code, claimed.json()["claim"]) == (200, "by-hand")
    assert claimed.json()["source"] == "existing"
    tenant = (await rest.get("/tenants/alice")).json()
    assert [claim["name"] for claim in tenant["claims"]] == ["by-hand"]
    path = f"/instances/{claimed.json()['instanceId']}/exec"
    assert (await rest.post(path, {"command": ["echo", "hi"]})).json()["stdout"] == "hi\n"
    released = await rest.post("/tenants/alice/release", {"workload": "web"})
    assert (released.status_code, released.json()["status"]) == (200, "released")
