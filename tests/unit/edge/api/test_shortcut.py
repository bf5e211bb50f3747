"""The short way to a handler: nobody can tell it from the long one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
from litestar import Litestar, Request, Response, post
from litestar.datastructures import State
from litestar.di import Provide
from litestar.params import FromPath, JSONBody

from boilerhouse.edge.api.auth import ADMIN, caller_of
from boilerhouse.edge.api.house import House, TheHouse
from boilerhouse.edge.api.shortcut import LENGTH, Shortcut
from tests.unit.edge.api.conftest import KEY, Rest

CLAIM = "/api/v1/tenants/alice/claim"
PLAIN = b'{"workload": "web"}'


async def in_pieces() -> AsyncIterator[bytes]:
    yield PLAIN[:5]
    yield PLAIN[5:]


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"content": PLAIN},
    "another type": {"content": PLAIN, "headers": {"content-type": "text/plain"}},
    "both names": {"content": b'{"workload": "web", "workloadRef": "web"}'},
    "two workloads": {"content": b'{"workload": "web", "workloadRef": "cache"}'},
    "a word for no": {"content": b'{"workload": "web", "resume": "false"}'},
    "another word": {"content": b'{"workload": "web", "resume": "perhaps"}'},
    "a workload that looks like nothing": {"content": b'{"workload": "null"}'},
    "a number for a name": {"content": b'{"workload": 7}'},
    "an empty name": {"content": b'{"workload": ""}'},
    "a long name": {"content": b'{"workload": "%s"}' % (b"w" * 254)},
    "no such workload": {"content": b'{"workload": "gone"}'},
    "nothing named": {"content": b"{}"},
    "an unknown field": {"content": b'{"workload": "web", "size": 1}'},
    "a field twice": {"content": b'{"workload": "gone", "workload": "web"}'},
    "no body": {},
    "null": {"content": b"null"},
    "a list": {"content": b"[]"},
    "half a body": {"content": b'{"workload": '},
    "no UTF-8": {"content": b'{"workload": "\xff"}'},
    "half a character": {"content": b'{"workload": "\\ud800"}'},
    "deeply nested": {"content": b"[" * 5000 + b"]" * 5000},
    "in pieces": {"content": in_pieces},
    "a long body": {"content": PLAIN + b" " * LENGTH},
    "too long a body": {"content": PLAIN + b" " * (3 << 20)},
    "a query": {"content": PLAIN, "params": {"wait": "1"}},
    "a query for nobody": {"content": PLAIN, "params": {"other": "1"}},
    "a bad query": {"content": PLAIN, "params": {"wait": "soon"}},
    "a bad tenant": {"content": PLAIN, "url": "/api/v1/tenants/.alice/claim"},
    "a slash at the end": {"content": PLAIN, "url": CLAIM + "/"},
    "one more part": {"content": PLAIN, "url": CLAIM + "/now"},
    "another method": {"method": "GET"},
    "only the headers": {"method": "HEAD"},
    "options": {"method": "OPTIONS"},
    "another host": {"content": PLAIN, "headers": {"host": "evil.example"}},
    "no host at all": {"content": PLAIN, "headers": {"host": "a b"}},
    "another page": {"content": PLAIN, "headers": {"origin": "http://evil.example"}},
    "a wrong token": {"content": PLAIN, "headers": {"authorization": "Bearer no"}},
    "another kind of token": {"content": PLAIN, "headers": {"Authorization": "Basic bm8="}},
    "the key": {"content": PLAIN, "headers": {"authorization": f"Bearer {KEY}"}},
    "two keys": {
        "content": PLAIN,
        "headers": [("authorization", "Bearer no"), ("Authorization", f"Bearer {KEY}")],
    },
}


async def answers(rest: Rest) -> dict[str, tuple[int, object, bytes]]:
    """Return what each request is answered, without what is new each time."""
    found: dict[str, tuple[int, object, bytes]] = {}
    for name, parts in REQUESTS.items():
        given = {"method": "POST", "url": CLAIM} | parts
        if callable(given.get("content")):
            given["content"] = given["content"]()
        answer = await rest.http.request(**given)
        body = re.sub(rb'"timings":\{[^}]*\}|logged as \w+', b"", answer.content)
        headers = [pair for pair in answer.headers.multi_items() if pair[0] != "content-length"]
        found[name] = (answer.status_code, headers, body)
    return found


async def both_ways(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, key: str | None = None
) -> dict[str, int]:
    """Ask both ways, and return the status of each answer."""
    await rest.world.ready_workload()
    await rest.claim("alice", headers={"authorization": f"Bearer {key}"} if key else {})
    short = await answers(rest)

    async def long_way(self: Shortcut, scope: Any, receive: Any, send: Any) -> None:
        await self.long_way(scope, receive, send)

    monkeypatch.setattr(Shortcut, "__call__", long_way)
    assert short == await answers(rest)
    return {name: status for name, (status, _, _) in short.items()}


async def test_both_ways_answer_alike(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status, headers and body are the same, of what is right and of all that can be wrong."""
    seen = await both_ways(rest, monkeypatch)
    assert max(seen.values()) < 500, seen
    assert (seen["plain"], seen["no UTF-8"], seen["options"]) == (200, 400, 204)
    assert (seen["in pieces"], seen["too long a body"], seen["another host"]) == (200, 413, 403)


async def test_both_ways_ask_for_the_key(keyed: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets in by the short way who would not by the long one."""
    seen = await both_ways(keyed, monkeypatch, KEY)
    assert {name for name, status in seen.items() if status < 300} == {"the key"}
    assert (seen["plain"], seen["two keys"]) == (401, 401)


class Asked(msgspec.Struct):
    times: int


@post("/greet/{name:str}", opt={"scope": ADMIN}, status_code=200, middleware=[Shortcut])
async def greet(
    name: FromPath[str], data: JSONBody[Asked], house: TheHouse, request: Request[Any, Any, Any]
) -> Response[list[str]]:
    """Tell by a header who asks; nobody is an admin without having been looked at."""
    assert caller_of(request).admin
    headers = {"X-Name": name} if data.times > 1 else {}
    return Response([name] * data.times, status_code=202 if data.times else None, headers=headers)


@pytest.fixture
async def small(rest: Rest) -> AsyncIterator[httpx2.AsyncClient]:
    """An application of one handler, where the long way is closed."""

    def closed() -> House:
        raise AssertionError("this went the long way")

    app: Any = Litestar(
        [greet],
        dependencies={"house": Provide(closed, sync_to_thread=False)},
        state=State({"auth": rest.house.auth, "house": rest.house}),
        openapi_config=None,
    )
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1:3000"
    ) as client:
        yield client


@pytest.mark.parametrize(
    ("times", "status", "header"), [(0, 200, None), (1, 202, None), (2, 202, "bob")]
)
async def test_an_answer_is_the_handlers(
    small: httpx2.AsyncClient, times: int, status: int, header: str | None
) -> None:
    """Its status or that of the route, its headers, its content, by the short way alone."""
    answer = await small.post("/greet/bob", json={"times": times})
    assert (answer.status_code, answer.json()) == (status, ["bob"] * times)
    assert answer.headers.get("x-name") == header
