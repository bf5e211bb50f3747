"""Right and wrong requests for one route: what each is answered with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.unit.edge.api.conftest import KEY, Rest

CLAIM = "/api/v1/tenants/alice/claim"
PLAIN = b'{"workload": "web"}'


async def in_pieces() -> AsyncIterator[bytes]:
    yield PLAIN[:5]
    yield PLAIN[5:]


# What is sent besides, or instead; and the status of the answer.
REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (200, {"content": PLAIN}),
    "another type": (200, {"content": PLAIN, "headers": {"content-type": "text/plain"}}),
    "both names": (200, {"content": b'{"workload": "web", "workloadRef": "web"}'}),
    "two workloads": (400, {"content": b'{"workload": "web", "workloadRef": "cache"}'}),
    "a word for no": (200, {"content": b'{"workload": "web", "resume": "false"}'}),
    "another word": (400, {"content": b'{"workload": "web", "resume": "perhaps"}'}),
    "a workload that looks like nothing": (404, {"content": b'{"workload": "null"}'}),
    "a number for a name": (400, {"content": b'{"workload": 7}'}),
    "an empty name": (400, {"content": b'{"workload": ""}'}),
    "a long name": (400, {"content": b'{"workload": "%s"}' % (b"w" * 254)}),
    "no such workload": (404, {"content": b'{"workload": "gone"}'}),
    "nothing named": (400, {"content": b"{}"}),
    "an unknown field": (400, {"content": b'{"workload": "web", "size": 1}'}),
    "a field twice": (200, {"content": b'{"workload": "gone", "workload": "web"}'}),
    "no body": (400, {}),
    "null": (400, {"content": b"null"}),
    "a list": (400, {"content": b"[]"}),
    "half a body": (400, {"content": b'{"workload": '}),
    "no UTF-8": (400, {"content": b'{"workload": "\xff"}'}),
    "half a character": (400, {"content": b'{"workload": "\\ud800"}'}),
    "deeply nested": (400, {"content": b"[" * 5000 + b"]" * 5000}),
    "in pieces": (200, {"content": in_pieces}),
    "a long body": (200, {"content": PLAIN + b" " * (64 << 10)}),
    "too long a body": (413, {"content": PLAIN + b" " * (3 << 20)}),
    "a query": (200, {"content": PLAIN, "params": {"wait": "1"}}),
    "an unknown query": (200, {"content": PLAIN, "params": {"other": "1"}}),
    "a bad query": (400, {"content": PLAIN, "params": {"wait": "soon"}}),
    "a bad tenant": (400, {"content": PLAIN, "url": "/api/v1/tenants/.alice/claim"}),
    "a slash at the end": (200, {"content": PLAIN, "url": CLAIM + "/"}),
    "one more part": (404, {"content": PLAIN, "url": CLAIM + "/now"}),
    "another method": (405, {"method": "GET"}),
    "only the headers": (405, {"method": "HEAD"}),
    "options": (204, {"method": "OPTIONS"}),
    "another host": (403, {"content": PLAIN, "headers": {"host": "evil.example"}}),
    "no host at all": (400, {"content": PLAIN, "headers": {"host": "a b"}}),
    "another page": (403, {"content": PLAIN, "headers": {"origin": "http://evil.example"}}),
    "a wrong token": (401, {"content": PLAIN, "headers": {"authorization": "Bearer no"}}),
    "another kind of token": (401, {"content": PLAIN, "headers": {"Authorization": "Basic bm8="}}),
    "the key": (401, {"content": PLAIN, "headers": {"authorization": f"Bearer {KEY}"}}),
    "two keys": (
        401,
        {
            "content": PLAIN,
            "headers": [("authorization", "Bearer no"), ("Authorization", f"Bearer {KEY}")],
        },
    ),
}


async def statuses(rest: Rest) -> dict[str, int]:
    """Return what each request is answered with."""
    found = {}
    for name, (_, parts) in REQUESTS.items():
        given = {"method": "POST", "url": CLAIM} | parts
        if callable(given.get("content")):
            given["content"] = given["content"]()
        found[name] = (await rest.http.request(**given)).status_code
    return found


async def test_every_request_has_its_answer(rest: Rest) -> None:
    """What is right is done, and all that can be wrong is refused for what it is."""
    await rest.world.ready_workload()
    await rest.claim("alice")
    assert await statuses(rest) == {name: status for name, (status, _) in REQUESTS.items()}


async def test_nothing_is_answered_without_the_key(keyed: Rest) -> None:
    """Whatever a request is like, who asks is looked at first."""
    await keyed.world.ready_workload()
    await keyed.claim("alice", headers={"authorization": f"Bearer {KEY}"})
    found = await statuses(keyed)
    assert {name for name, status in found.items() if status < 300} == {"the key"}
    assert (found["plain"], found["two keys"]) == (401, 401)
