"""Who may call what: the key, claims' tokens, the open listener, and that no route is forgotten."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from boilerhouse.core import claimtoken
from boilerhouse.edge.api.app import routes
from boilerhouse.edge.api.auth import ADMIN, PUBLIC, SCOPES, guard
from boilerhouse.edge.api.serving import bind_api
from boilerhouse.edge.api.triggers import MOST
from boilerhouse.platform.serving.listening import ListenError
from boilerhouse.tenancy.claims.objects import CLAIMS
from tests.controllers.operator_fixture import SPEC
from tests.unit.edge.api.conftest import KEY, SIGNING, Rest

ADMIN_HEADERS = {"authorization": f"Bearer {KEY}"}


def handlers(rest: Rest) -> Iterator[tuple[str, Any]]:
    for route in routes(rest.services).routes:
        alone = getattr(route, "route_handler", None)
        for handler in getattr(route, "route_handlers", None) or [alone]:
            yield f"{getattr(handler, 'http_methods', 'WS')} {route.path}", handler


async def test_every_route_declares_its_scope(rest: Rest) -> None:
    """A handler without a known scope, or without the guard, would be open by accident."""
    seen = 0
    for where, handler in handlers(rest):
        if where.startswith("{'OPTIONS'}") or "OPTIONS" in where:
            continue  # the framework's own list of methods
        assert handler.opt.get("scope") in SCOPES, where
        assert guard in handler.resolve_guards(), where
        seen += 1
    assert seen > 40


@pytest.mark.slow
async def test_only_health_and_the_schema_are_public(rest: Rest) -> None:
    """Everything else needs a caller with a name."""
    public = {where.split(" ")[-1] for where, h in handlers(rest) if h.opt.get("scope") == PUBLIC}
    schema = {"/schema", "/schema/openapi.json", "/schema/openapi.yaml", "/schema/{path:str}"}
    assert public == {"/api/v1/health"} | schema


async def test_without_the_key_nothing_but_the_public_is_answered(keyed: Rest) -> None:
    """401 with the way to authenticate, for no key, a wrong one and a mangled header."""
    wrong = [{}, {"authorization": "Bearer wrong"}, {"authorization": KEY}]
    wrong += [{"authorization": "Basic eDp5"}, {"authorization": "Bearer "}]
    for headers in wrong:
        answer = await keyed.get("/instances", headers=headers)
        assert answer.status_code == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert KEY not in answer.text
    assert (await keyed.get("/instances", headers=ADMIN_HEADERS)).status_code == 200
    assert (await keyed.get("/health")).status_code == 200
    assert (await keyed.http.get("/schema")).status_code == 200
    assert (await keyed.http.get("/metrics")).status_code == 401


@pytest.mark.slow
async def test_with_a_key_any_host_may_be_asked_for(keyed: Rest) -> None:
    """The key is what guards then; a reverse proxy may call us what it likes."""
    headers = ADMIN_HEADERS | {"host": "boilerhouse.example.org"}
    assert (await keyed.get("/instances", headers=headers)).status_code == 200


async def test_an_open_listener_answers_its_own_pages_only(rest: Rest) -> None:
    """Another Host is DNS rebinding, another Origin another site's page: both are 403."""
    for headers in (
        {"host": "evil.example"},
        {"host": "evil.example:3000"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://[::1"},
        {"origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "cross-site"},
    ):
        answer = await rest.get("/instances", headers=headers)
        assert answer.status_code == 403, headers
        assert (await rest.get("/health", headers=headers)).status_code == 403
    for headers in (
        {"host": "localhost:3000"},
        {"host": "[::1]:3000"},
        {"origin": "http://127.0.0.1:3000", "sec-fetch-site": "same-origin"},
    ):
        assert (await rest.get("/instances", headers=headers)).status_code == 200, headers


def test_without_a_key_only_loopback_is_bound() -> None:
    """Anything else is refused with what to do; with a key it is allowed."""
    for host in ("0.0.0.0", "::", "10.1.2.3"):
        with pytest.raises(ListenError, match="BOILERHOUSE_API_KEY"):
            bind_api(host, 0, key="")
    bind_api("127.0.0.1", 0, key="").close()
    bind_api("localhost", 0, key="").close()
    bind_api("127.0.0.1", 0, key="k").close()
    bind_api("0.0.0.0", 0, key="0f4c29d1a8b35e67").close()


@pytest.mark.parametrize("key", ["sesame", "short-of-sixtee", "a" * 40, "abcabc" * 5])
def test_a_key_that_can_be_guessed_opens_nothing_to_the_network(key: str) -> None:
    """Refused with a command that makes a better one; the key is not shown."""
    wanted = r"16 characters or more, .*export BOILERHOUSE_API_KEY="
    with pytest.raises(ListenError, match=wanted) as caught:
        bind_api("0.0.0.0", 0, key=key)
    assert key not in str(caught.value)


def test_a_port_in_use_says_how_to_choose_another() -> None:
    """By the option, and by way of make."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=r"in use: .* --port \d+ \(make up ARGS='--port"):
            bind_api("127.0.0.1", port, key="")


async def token_of(rest: Rest, tenant: str, workload: str = "web") -> dict[str, str]:
    admin = {} if rest.services.auth.open else ADMIN_HEADERS
    answer = await rest.claim(tenant, workload, headers=admin)
    claim = await rest.world.client.get(CLAIMS, answer.json()["claim"])
    return {"authorization": f"Bearer {claimtoken.mint(SIGNING, claim.metadata.uid)}"}


ACCESS = {"scopes": ["instances:read", "instances:exec", "tenants:read", "workloads:read"]}


async def test_a_scoped_caller_sees_its_own_alone(keyed: Rest) -> None:
    """Its tenant, its workload, its instance; those of others do not exist."""
    await keyed.world.ready_workload("web", apiAccess=ACCESS)
    await keyed.world.ready_workload("other")
    alice = await token_of(keyed, "alice")
    bob = (await keyed.claim("bob", headers=ADMIN_HEADERS)).json()["instanceId"]
    await keyed.claim("alice", "other", headers=ADMIN_HEADERS)
    [own] = (await keyed.get("/instances", headers=alice)).json()
    assert (own["tenantId"], own["workloadRef"]) == ("alice", "web")
    run = {"command": ["echo", "x"]}
    answer = await keyed.post(f"/instances/{own['name']}/exec", run, headers=alice)
    assert answer.status_code == 200
    for path in (f"/instances/{bob}", f"/instances/{bob}/logs", "/tenants/bob", "/workloads/other"):
        assert (await keyed.get(path, headers=alice)).status_code == 404, path
    assert (await keyed.post(f"/instances/{bob}/exec", run, headers=alice)).status_code == 404
    [tenant] = (await keyed.get("/tenants", headers=alice)).json()
    assert [claim["workloadRef"] for claim in tenant["claims"]] == ["web"]
    [workload] = (await keyed.get("/workloads", headers=alice)).json()
    assert workload["name"] == "web"


async def test_a_scoped_caller_lacks_what_it_was_not_given(keyed: Rest) -> None:
    """403 for scopes it does not have and for everything that only admins may do."""
    await keyed.world.ready_workload("web")  # the default scopes
    alice = await token_of(keyed, "alice")
    assert (await keyed.get("/workloads/web", headers=alice)).status_code == 200
    for path in ("/instances", "/tenants", "/pools", "/claims", "/secrets", "/stats", "/events"):
        answer = await keyed.get(path, headers=alice)
        assert answer.status_code == 403, path
    claim = await keyed.post("/tenants/alice/claim", {"workload": "web"}, headers=alice)
    assert claim.status_code == 403
    made = await keyed.post("/workloads", {"name": "x", "spec": SPEC}, headers=alice)
    assert made.status_code == 403


async def test_a_token_never_becomes_an_admin(rest: Rest) -> None:
    """Also where a caller without any token would be one."""
    await rest.world.ready_workload("web", apiAccess={"scopes": ["instances:read"]})
    alice = await token_of(rest, "alice")
    assert (await rest.get("/pools")).status_code == 200
    assert (await rest.get("/pools", headers=alice)).status_code == 403
    forged = {"authorization": "Bearer bh1.0.x"}
    assert (await rest.get("/pools", headers=forged)).status_code == 401
    assert (await rest.get("/pools", headers={"authorization": "Bearer x"})).status_code == 401


async def test_a_token_ends_with_its_claim(keyed: Rest) -> None:
    """Released, it is nobody's; the next claim of the same tenant has another."""
    await keyed.world.ready_workload("web", apiAccess=ACCESS)
    alice = await token_of(keyed, "alice")
    await keyed.post("/tenants/alice/release", {"workload": "web"}, headers=ADMIN_HEADERS)
    assert (await keyed.get("/instances", headers=alice)).status_code == 401
    again = await token_of(keyed, "alice")
    assert again != alice
    assert (await keyed.get("/instances", headers=again)).status_code == 200
    assert (await keyed.get("/instances", headers=alice)).status_code == 401


async def test_the_scope_none_is_no_token(keyed: Rest) -> None:
    """And no apiAccess can make an admin."""
    await keyed.world.ready_workload("web", apiAccess={"scopes": ["none"]})
    await keyed.world.ready_workload("sly", apiAccess={"scopes": [ADMIN]})
    for workload in ("web", "sly"):
        token = await token_of(keyed, "alice", workload)
        assert (await keyed.get("/workloads", headers=token)).status_code == 403
        assert (await keyed.get("/pools", headers=token)).status_code == 403


def trigger(**changes: Any) -> dict[str, Any]:
    spec = {"type": "cron", "workloadRef": "web", "tenant": {"static": "alice"}} | changes
    return {"name": "t", "spec": spec}


async def test_an_agent_may_wake_its_own_tenant_by_the_clock(keyed: Rest) -> None:
    """A cron trigger for itself: made, seen, replaced, deleted."""
    await keyed.world.ready_workload()
    alice, bob = await token_of(keyed, "alice"), await token_of(keyed, "bob")
    body = trigger(config={"schedule": "0 9 * * *", "payload": {"text": "hi"}})
    made = await keyed.post("/triggers", body, headers=alice)
    assert made.status_code == 201, made.text
    assert [t["name"] for t in (await keyed.get("/triggers", headers=alice)).json()] == ["t"]
    assert (await keyed.get("/triggers", headers=bob)).json() == []
    url = "/api/v1/triggers/t"
    assert (await keyed.http.delete(url, headers=bob)).status_code == 404
    put = await keyed.http.put(url, json={"spec": body["spec"]}, headers=alice)
    assert put.status_code == 200, put.text
    foreign = await keyed.http.put(
        url, json={"spec": trigger(tenant={"static": "bob"})["spec"]}, headers=bob
    )
    assert foreign.status_code == 409
    assert (await keyed.http.delete(url, headers=alice)).status_code == 200


@pytest.mark.slow
async def test_an_agent_may_not_reach_beyond_itself(keyed: Rest) -> None:
    """Guards, drivers, other tenants, prefixes, other kinds of events: 403 with every reason."""
    await keyed.world.ready_workload()
    alice = await token_of(keyed, "alice")
    for changes in (
        {"guards": [{"type": "api", "config": {"url": "http://evil", "secretRef": "db"}}]},
        {"driver": "openclaw"},
        {"driverOptions": {"gatewayTokenSecretRef": "db"}},
        {"tenant": {"static": "bob"}},
        {"tenant": {"static": "ice", "prefix": "al"}},
        {"tenant": {"from": "user"}},
        {"type": "webhook"},
        {"workloadRef": "other"},
        {"config": {"secretRef": "db"}},
    ):
        answer = await keyed.post("/triggers", trigger(**changes), headers=alice)
        assert answer.status_code == 403, (changes, answer.text)
        assert answer.json()["details"]["errors"]
    admins = trigger(guards=[{"type": "allowlist"}])
    assert (await keyed.post("/triggers", admins, headers=ADMIN_HEADERS)).status_code == 201
    url = "/api/v1/triggers/t"
    put = await keyed.http.put(url, json={"spec": trigger()["spec"]}, headers=alice)
    assert put.status_code == 403
    assert (await keyed.http.delete(url, headers=alice)).status_code == 403


@pytest.mark.slow
async def test_an_agent_has_a_limited_number_of_triggers(keyed: Rest) -> None:
    """Of many that are asked for at the same moment exactly ten are made; the others are 429."""
    await keyed.world.ready_workload()
    alice = await token_of(keyed, "alice")

    async def made(number: int) -> int:
        body = trigger() | {"name": f"t{number}"}
        if number % 2:
            url = f"/api/v1/triggers/t{number}"
            return (await keyed.http.put(url, json=body, headers=alice)).status_code
        return (await keyed.post("/triggers", body, headers=alice)).status_code

    statuses = await asyncio.gather(*(made(number) for number in range(60)))
    assert Counter(statuses) == {201: MOST, 429: 60 - MOST}
    assert len((await keyed.get("/triggers", headers=alice)).json()) == MOST


async def test_the_key_is_compared_whole(keyed: Rest) -> None:
    """A beginning of the key, or the key and more, is not the key."""
    for key in (KEY[:-1], KEY + "x", KEY.upper(), ""):
        headers = {"authorization": f"Bearer {key}"}
        answer: httpx2.Response = await keyed.get("/instances", headers=headers)
        assert answer.status_code == 401
