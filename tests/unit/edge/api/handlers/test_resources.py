"""Workloads, pools, claims, triggers, Secrets and ConfigMaps as resources over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core import supervision
from boilerhouse.core.names import NAMESPACE
from boilerhouse.platform.kube.resources import CONFIG_MAPS, SECRETS, Key
from boilerhouse.platform.rpc import message
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import helper_secret
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.controllers.operator_fixture import SPEC
from tests.unit.edge.api.conftest import HELPER_TOKEN, Rest, opened_helper

SPECS: dict[str, dict[str, Any]] = {
    "workloads": {key: SPEC[key] for key in ("version", "image", "resources")},
    "pools": {"workloadRef": "web", "size": 0},
    "claims": {"tenantId": "alice", "workloadRef": "nothing"},
    "triggers": {"type": "cron", "workloadRef": "web", "tenant": {"static": "alice"}},
}


@pytest.mark.parametrize("plural", SPECS)
async def test_an_object_from_birth_to_death(rest: Rest, plural: str) -> None:
    """POST 201, again 409, GET by name and in the list, PUT 200, DELETE, then 404."""
    made = await rest.post(f"/{plural}", {"name": "one", "spec": SPECS[plural]})
    assert made.status_code == 201, made.text
    assert made.json()["name"] == "one"
    again = await rest.post(f"/{plural}", {"name": "one", "spec": SPECS[plural]})
    assert (again.status_code, again.json()["code"]) == (409, "AlreadyExists")
    shown = (await rest.get(f"/{plural}/one")).json()
    assert shown["spec"] | SPECS[plural] == shown["spec"]
    assert shown["status"]["phase"]
    assert [item["name"] for item in (await rest.get(f"/{plural}")).json()] == ["one"]
    put = await rest.http.put(f"/api/v1/{plural}/one", json={"spec": shown["spec"]})
    assert put.status_code == 200, put.text
    gone = await rest.http.delete(f"/api/v1/{plural}/one")
    assert gone.status_code in (200, 202), gone.text
    missing = await rest.http.delete(f"/api/v1/{plural}/nobody")
    assert missing.status_code == 404
    assert "'nobody'" in missing.json()["error"]


async def test_put_creates_what_is_not_there(rest: Rest) -> None:
    """201 for a new one, 200 for the next; labels left out stay."""
    url, body = "/api/v1/pools/p", {"spec": SPECS["pools"], "labels": {"team": "a"}}
    assert (await rest.http.put(url, json=body)).status_code == 201
    changed = await rest.http.put(url, json={"spec": SPECS["pools"] | {"size": 1}})
    assert changed.status_code == 200
    assert changed.json()["spec"]["size"] == 1
    assert changed.json()["labels"] == {"team": "a"}
    stale = {"spec": SPECS["pools"], "resourceVersion": "1"}
    assert (await rest.http.put(url, json=stale)).status_code == 409
    other = await rest.http.put(url, json={"name": "q", "spec": SPECS["pools"]})
    assert other.status_code == 400


async def test_everything_wrong_with_a_spec_is_listed(rest: Rest) -> None:
    """422 with one entry per mistake, our rules and unknown fields included."""
    spec = SPEC | {"resources": {"vcpus": 0, "memoryMb": "x"}, "image": {}}
    answer = await rest.post("/workloads", {"name": "bad", "spec": spec})
    assert answer.status_code == 422
    errors = "\n".join(answer.json()["details"]["errors"])
    for field in ("vcpus", "memoryMb", "diskGb", "spec.image"):
        assert field in errors
    answer = await rest.post("/workloads", {"name": "bad", "spec": SPEC | {"colour": "red"}})
    assert answer.status_code == 422
    assert answer.json()["details"]["errors"] == ["spec.colour: unknown field"]
    answer = await rest.post("/workloads", {"name": "Not A Name", "spec": SPEC})
    assert answer.status_code == 422
    assert (await rest.post("/claims", {"name": "c", "spec": {}})).status_code == 422
    tenant = {"tenantId": "e\u0301", "workloadRef": "web"}
    assert (await rest.post("/claims", {"name": "c", "spec": tenant})).status_code == 422


async def test_bad_bodies_are_400(rest: Rest) -> None:
    """No name, no spec, a spec that is no object."""
    for body in ({}, {"name": "a"}, {"name": "a", "spec": 3}, {"name": "", "spec": {}}):
        assert (await rest.post("/workloads", body)).status_code == 400, body


async def test_what_is_wrong_with_a_body_is_said_once_and_plainly(rest: Rest) -> None:
    """No body, no JSON, half a character, and JSON of a hundred thousand levels."""
    deep = '{"name": "a", "spec": ' + '{"a":' * 100_000 + "1" + "}" * 100_001
    answers = {
        body: await rest.http.post("/api/v1/workloads", content=body)
        for body in ("", "nope", '"\\ud800"', deep)
    }
    assert {answer.status_code for answer in answers.values()} == {400}
    said = {body: answer.json()["error"] for body, answer in answers.items()}
    assert said[""] == "the request has no body: send a JSON object"
    assert said["nope"].count("malformed") == 1
    assert said['"\\ud800"'].count("truncated") == 1
    assert said[deep] == "the body is nested too deeply"


async def test_a_body_that_is_too_large_is_413(rest: Rest) -> None:
    """Three MiB are the limit."""
    answer = await rest.post("/workloads", {"name": "a", "spec": {"version": "x" * (3 << 20)}})
    assert answer.status_code == 413
    assert answer.json()["code"]


async def test_secrets_go_in_and_never_come_out(rest: Rest) -> None:
    """PUT makes and replaces them; GET shows names and keys alone."""
    url = "/api/v1/secrets/db"
    made = await rest.http.put(url, json={"stringData": {"password": "hunter2"}})
    assert made.status_code == 201
    assert (await rest.http.put(url, json={"data": {"p": "aGk="}})).status_code == 200
    stored = await rest.world.client.get(SECRETS, "db")
    assert stored.data == {"p": b"hi"}
    shown = await rest.http.get(url)
    version = stored.metadata.resource_version
    assert shown.json() == {"name": "db", "keys": ["p"], "resourceVersion": version}
    again = await rest.http.put(url, json={"data": {"p": "aGk="}})
    assert again.json()["resourceVersion"] == version
    assert "aGk" not in (await rest.get("/secrets")).text
    wrong = await rest.http.put(url, json={"data": {"p": "not base64!"}})
    assert wrong.status_code == 422
    assert (await rest.http.delete(url)).status_code == 200
    assert (await rest.http.get(url)).status_code == 404
    made = await rest.http.put("/api/v1/configmaps/c", json={"data": {"a": "b"}})
    assert (made.status_code, made.json()["keys"]) == (201, ["a"])
    fixed = {"data": {"a": "b"}, "immutable": True}
    assert (await rest.http.put("/api/v1/configmaps/c", json=fixed)).status_code == 200
    kept = await rest.world.client.raw("GET", CONFIG_MAPS.path(NAMESPACE, "c"))
    assert kept["immutable"] is True


async def test_the_secrets_of_agents_are_left_alone(rest: Rest) -> None:
    """What an instance's agent is spoken to with can be neither seen nor replaced here."""
    await rest.world.ready_workload()
    instance = (await rest.claim("alice")).json()["instanceId"]
    name = f"agent-{instance}"
    assert (await rest.get("/secrets")).json() == []
    put = await rest.http.put(f"/api/v1/secrets/{name}", json={"stringData": {"token": "x"}})
    assert put.status_code == 409
    assert (await rest.http.delete(f"/api/v1/secrets/{name}")).status_code == 409


@pytest.mark.slow
async def test_stats_health_why_metrics_and_schema(rest: Rest) -> None:
    """How the services is doing, what was decided, and what can be asked."""
    await rest.world.ready_workload()
    claim = (await rest.claim("alice")).json()["claim"]
    stats = (await rest.get("/stats")).json()
    assert stats["instances"] == {"total": 1, "byPhase": {"Running": 1}}
    assert stats["claims"] == {"total": 1, "byPhase": {"Active": 1}}
    assert stats["pools"]["ready"] == 0
    assert (await rest.get("/health")).json() == {"status": "ok"}
    passes = (await rest.get(f"/why/claim/{claim}")).json()["passes"]
    assert passes[-1]["seen"]["claim"]["tenant"] == "alice"
    nobody = await rest.get("/why/claim/nobody")
    assert (nobody.status_code, nobody.json()["error"]) == (404, "there is no claim named 'nobody'")
    assert (await rest.get("/why/pod/x")).status_code == 400
    await rest.http.request("MADEUP", "/api/v1/health")
    metrics = (await rest.http.get("/metrics")).text
    assert 'method="other"' in metrics and "MADEUP" not in metrics
    assert 'boilerhouse_http_seconds_count{method="POST",route="/api/v1/tenants/{' in metrics
    schema = (await rest.http.get("/schema")).json()
    assert "/api/v1/tenants/{tenant}/claim" in schema["paths"]
    assert (await rest.http.get("/schema/openapi.yaml")).status_code == 200


async def test_a_spec_is_refused_in_words(rest: Rest) -> None:
    """What a field must be, not how a program checks it."""
    spec = {
        **SPEC,
        "image": {"ref": "Not An Image"},
        "filesystem": {"overlayDirs": ["work"]},
        "network": {"access": "none", "expose": [{"guest": 1}, {"guest": 1}]},
        "entrypoint": {"cmd": ["a"]},
    }
    answer = await rest.http.put("/api/v1/workloads/web", json={"spec": spec})
    assert answer.status_code == 422
    errors = answer.json()["details"]["errors"]
    assert "spec.network.expose[1]: duplicate item" in errors
    assert "spec.entrypoint.cmd: must be a string or null, not a list" in errors
    (path,) = [one for one in errors if "overlayDirs[0]" in one]
    assert "must be an absolute path" in path and "x00" not in path
    (image,) = [one for one in errors if "image.ref" in one]
    assert "must be an image reference such as" in image
    answer = await rest.http.post("/api/v1/workloads", json={"name": 3, "spec": []})
    assert answer.status_code == 400
    assert "`" not in answer.json()["error"], answer.text


async def test_a_path_that_names_nothing_says_why(rest: Rest) -> None:
    """A coded slash, and an empty part."""
    answer = await rest.get("/why/claim/a%2Fb")
    assert (answer.status_code, "a slash or a backslash" in answer.json()["error"]) == (400, True)
    answer = await rest.http.get("/api/v1//claims")
    assert (answer.status_code, "part of it is empty" in answer.json()["error"]) == (400, True)


async def test_unknown_paths_and_methods(rest: Rest) -> None:
    """404 and 405 in the shape of every other error."""
    for answer, status in (
        (await rest.get("/nothing"), 404),
        (await rest.http.get("/"), 404),
        (await rest.http.put("/api/v1/tenants", json={}), 405),
    ):
        assert answer.status_code == status
        assert {"error", "code", "title", "status", "detail"} <= set(answer.json())
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_cluster_that_is_away_is_503(rest: Rest) -> None:
    """Lists, claims and single objects all say so; health says why."""
    for informer in rest.services.informers:
        informer.last_heard = -1e9
    assert (await rest.get("/instances")).status_code == 503
    health = await rest.get("/health")
    assert health.status_code == 503
    assert "heard nothing" in health.json()["error"]
    await rest.server.stop()
    answer = await rest.get("/workloads/web")
    assert answer.status_code in (404, 503)


async def test_one_deaf_informer_is_told(rest: Rest) -> None:
    """Also one that no request reads: decisions are made by what it does not hear."""
    for informer in rest.world.operator.informers:
        heard, informer.last_heard = informer.last_heard, -1e9
        health = await rest.get("/health")
        assert health.status_code == 503, f"{informer.resource} is deaf"
        (complaint,) = health.json()["details"]["complaints"]
        assert complaint.startswith(f"{informer.resource}: heard nothing")
        informer.last_heard = heard
    assert (await rest.get("/health")).status_code == 200


async def test_one_machine_is_not_well_before_its_helper_runs(rest: Rest, tmp_path: Path) -> None:
    """503 and why, until it has answered once; whoever saw 200 can list snapshots."""
    async with opened_helper(tmp_path / "volume") as helper:
        runs = False

        async def route(request: message.Request) -> message.Answer:
            if not runs:
                raise Unreachable("the snapshot helper does not run")
            return await helper.handle(request)

        client = rest.services.client
        snapshots = SnapshotClient(client, route, Agents(client))
        object.__setattr__(rest.services, "snapshots", snapshots)
        assert (await rest.get("/health")).status_code == 200  # a cluster's starts by itself
        object.__setattr__(rest.services, "awaits_helper", True)
        early = await rest.get("/health")
        assert (early.status_code, "not set up yet" in early.json()["error"]) == (503, True)
        await client.create(SECRETS, helper_secret(HELPER_TOKEN))
        early = await rest.get("/health")
        assert (early.status_code, "does not run" in early.json()["error"]) == (503, True)
        runs = True
        assert (await rest.get("/health")).status_code == 200
        assert (await rest.get("/snapshots")).status_code == 200
        runs = False
        assert (await rest.get("/health")).status_code == 200
        assert (await rest.get("/snapshots")).status_code == 503


@pytest.mark.slow
async def test_a_body_that_drips_is_given_up(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 and the end of the connection; one that comes slowly and steadily is taken."""
    monkeypatch.setattr("boilerhouse.edge.api.middleware.BODY_SECONDS", 1.0)
    monkeypatch.setattr("boilerhouse.edge.api.middleware.BODY_PIECE", 1000)
    async with rest.served() as address:
        port = int(address.rpartition(":")[2])

        async def sent(path: str, body: bytes, pieces: int, pause: float) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"PUT /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode())
            answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
            size = -(-len(body) // pieces)
            async with asyncio.timeout(60):
                for at in range(0, len(body), size):
                    if answer.done():
                        break
                    writer.write(body[at : at + size])
                    await asyncio.sleep(pause)
                got = await answer
            writer.close()
            return got

        body = b'{"data": {"a": "' + b"x" * 20_000 + b'"}}'
        steady, dripping = await asyncio.gather(
            sent("configmaps/steady", body, 10, 0.2), sent("configmaps/drip", body, 20_000, 0.05)
        )
    assert steady.startswith(b"HTTP/1.1 201 ")
    assert dripping.startswith(b"HTTP/1.1 408 ") and b"problem+json" in dripping
    assert (await rest.get("/configmaps/drip")).status_code == 404


@pytest.mark.slow
async def test_a_dead_background_task_is_seen_and_lives_again(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that a bug has ended: health is 503 and names it, and it works again."""
    monkeypatch.setattr(supervision, "RECOVERED_SECONDS", 0.3)
    controller = rest.services.operator.workloads
    take = controller.queue.take

    async def broken() -> Any:
        monkeypatch.setattr(controller.queue, "take", take)
        raise RuntimeError("a bug")

    monkeypatch.setattr(controller.queue, "take", broken)
    # A worker that waits in the old one wakes by this, and meets the broken one next.
    controller.queue.add(Key("boilerhouse", "nothing"))
    async with asyncio.timeout(30):
        while (health := await rest.get("/health")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert f"controller {controller.name} failed and is started again" in health.json()["error"]
    async with asyncio.timeout(30):
        while (await rest.get("/health")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await rest.world.ready_workload("later")
