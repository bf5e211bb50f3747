"""The verbs: what goes out, what comes back, what is raised, what is tried again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from boilerhouse.core.clock import new_rng
from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.kube.resources import CONFIG_MAPS, CRDS, NODES, PODS, STATEFUL_SETS, Key
from boilerhouse.platform.kube.status import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tests.unit.platform.kube.scripted import Answer, Scripted, ok
from tests.unit.platform.kube.servers import pod, pods, status


def client(*answers: Answer) -> tuple[Client, Scripted]:
    script = Scripted(*answers)
    return Client(script, "default", rng=new_rng(1)), script


def sent(script: Scripted) -> Any:
    return msgspec.json.decode(script.last.body)


async def test_get_decodes_only_the_fields_we_read() -> None:
    """A Pod with fields that nobody looks at decodes; the ones we know are there."""
    body = pod("web", 7, labels={"app": "web"}) | {
        "spec": {"nodeName": "n1", "zork": {"deep": [1]}, "containers": [{"name": "a"}]},
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    api, script = client(ok(body))
    found = await api.get(PODS, "web")
    assert (found.metadata.name, found.spec.node_name, found.status.pod_ip) == (
        "web",
        "n1",
        "10.0.0.1",
    )
    assert found.ready
    assert (script.last.method, script.last.path) == ("GET", "/api/v1/namespaces/default/pods/web")


async def test_find_says_none_of_what_is_not_there() -> None:
    """What is there is decoded; absence is no error, and every other refusal is one."""
    api, script = client(
        ok(pod("web", 7)),
        ok(status(404, "NotFound"), 404),
        ok(status(403, "Forbidden"), 403),
    )
    found = await api.find(PODS, "web")
    assert found is not None
    assert found.metadata.name == "web"
    assert await api.find(PODS, "web") is None
    assert (script.last.method, script.last.path) == ("GET", "/api/v1/namespaces/default/pods/web")
    with pytest.raises(Forbidden):
        await api.find(PODS, "web")


@pytest.mark.looptime
async def test_find_asks_again_when_nobody_answers() -> None:
    """Absence is believed only of a server that answered."""
    api, _ = client(Unavailable("gone"), ok(status(404, "NotFound"), 404))
    assert await api.find(PODS, "web") is None


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", InternalError),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Timeout),
        (418, "Teapot", ApiError),
    ],
)
async def test_a_failure_is_raised_as_its_reason(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    """The class of the exception is the reason of the Status."""
    api, _ = client(ok(status(code, reason, "because"), code))
    with pytest.raises(kind, match="because") as caught:
        await api.create(PODS, {"metadata": {"name": "x"}})
    assert type(caught.value) is kind
    assert caught.value.status_code == code


async def test_invalid_carries_every_cause() -> None:
    """All that is wrong with an object can be read from the exception."""
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 3", "field": "spec.b"},
    ]
    api, _ = client(ok(status(422, "Invalid", causes=causes, name="x", kind="Pod"), 422))
    with pytest.raises(Invalid) as caught:
        await api.create(PODS, {"metadata": {"name": "x"}})
    assert caught.value.causes == (
        Cause("FieldValueRequired", "Required value", "spec.a"),
        Cause("FieldValueInvalid", "Invalid value: 3", "spec.b"),
    )


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[1]", b"\xff\xfe"])
async def test_an_error_without_a_status_is_typed_by_its_code(body: bytes) -> None:
    """A proxy in between that answers 502 with its own page is still Unavailable."""
    api, _ = client(ok(body, 502))
    with pytest.raises(Unavailable):
        await api.create(PODS, {"metadata": {"name": "x"}})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"metadata": {"name": 5}}', b"\xff"])
async def test_a_success_that_is_not_the_object_is_an_error(body: bytes) -> None:
    """A reply with status 200 and a broken body never becomes an object."""
    api, _ = client(ok(body))
    with pytest.raises(InternalError, match="not a Pod"):
        await api.get(PODS, "x")


@pytest.mark.looptime
async def test_a_read_is_tried_again_while_nobody_answers() -> None:
    """Two refusals and a success are, to the caller of a read, a success a moment later."""
    api, script = client(Unavailable("gone"), ok(status(504, "Timeout"), 504), ok(pod("web", 1)))
    assert (await api.get(PODS, "web")).metadata.name == "web"
    assert len(script.requests) == 3
    assert 0.3 <= asyncio.get_running_loop().time() <= 0.45


@pytest.mark.looptime
async def test_a_read_is_given_up_in_the_end() -> None:
    """A server that stays away is reported after a bounded number of attempts."""
    api, script = client(Unavailable("gone"))
    with pytest.raises(Unavailable):
        await api.get(PODS, "web")
    assert len(script.requests) == 4


@pytest.mark.looptime
async def test_a_server_that_asks_to_wait_is_obeyed_within_reason() -> None:
    """Retry-After is honoured for reads, but an hour is not waited for."""
    busy = ok(status(429, "TooManyRequests"), 429, **{"retry-after": "2"})
    api, _ = client(busy, ok(pod("web", 1)))
    await api.get(PODS, "web")
    assert 2 <= asyncio.get_running_loop().time() <= 3

    api, _ = client(ok(status(429, "x", retryAfterSeconds=3600), 429), ok(pod("web", 1)))
    await api.get(PODS, "web")
    assert asyncio.get_running_loop().time() <= 12


@pytest.mark.parametrize("refusal", [Unavailable("lost"), ok(status(429, "x"), 429)])
async def test_a_write_is_never_repeated(refusal: Answer) -> None:
    """Whether a lost write happened is for the caller to find out: it is sent once."""
    api, script = client(refusal)
    for write in (
        api.create(PODS, {"metadata": {"name": "x"}}),
        api.replace(PODS, {"metadata": {"name": "x"}}),
        api.merge_patch(PODS, "x", {}),
        api.delete(PODS, "x"),
        api.delete_collection(PODS),
    ):
        before = len(script.requests)
        with pytest.raises((Unavailable, TooManyRequests)):
            await write
        assert len(script.requests) == before + 1


async def test_a_refusal_tells_how_long_to_wait() -> None:
    """The delay of a 429 is on the exception, from the body or from the header."""
    api, _ = client(ok(status(429, "TooManyRequests", retryAfterSeconds=7), 429))
    with pytest.raises(TooManyRequests) as caught:
        await api.delete(PODS, "x")
    assert caught.value.retry_after == 7


async def test_a_list_is_fetched_in_pages() -> None:
    """Pages are joined, and the continue token is passed on."""
    api, script = client(
        ok(pods(pod("a", 1), version=9, more="tok/en")), ok(pods(pod("b", 2), version=9))
    )
    found = await api.list(PODS, namespace=ALL, labels={"app": "web", "x": None}, limit=1)
    assert [item.metadata.name for item in found.items] == ["a", "b"]
    assert found.resource_version == "9"
    assert script.requests[0].path == "/api/v1/pods"
    assert script.requests[0].query == (("labelSelector", "app=web,x"), ("limit", "1"))
    assert script.requests[1].query[-1] == ("continue", "tok/en")


async def test_a_list_that_expires_between_pages_begins_again() -> None:
    """410 in mid-paging gives the whole list once, with nothing twice and nothing lost."""
    expired = ok(status(410, "Expired"), 410)
    api, script = client(
        ok(pods(pod("a", 1), version=9, more="x")),
        expired,
        ok(pods(pod("a", 1), version=12, more="y")),
        expired,
        ok(pods(pod("a", 1), pod("c", 11), version=14)),
    )
    found = await api.list(PODS, limit=1)
    assert [item.metadata.name for item in found.items] == ["a", "c"]
    assert found.resource_version == "14"
    assert "limit" not in dict(script.last.query)


async def test_one_object_that_does_not_fit_does_not_hide_the_others() -> None:
    """A list with one unreadable object gives the others, and the reason for that one."""
    bad = pod("bad", 3) | {"spec": {"nodeName": 5}}
    api, _ = client(ok(pods(pod("a", 1), bad, version=9)))
    found = await api.list(PODS)
    assert [item.metadata.name for item in found.items] == ["a"]
    assert list(found.misfits) == [Key("default", "bad")]
    assert "nodeName" in found.misfits[Key("default", "bad")]


async def test_an_empty_list_may_be_null() -> None:
    """Go's nil slice arrives as null."""
    api, _ = client(ok({"metadata": {"resourceVersion": "3"}, "items": None}))
    assert (await api.list(PODS)).items == []


async def test_create_fills_in_what_the_resource_says() -> None:
    """apiVersion and kind need not be written; the namespace of the body counts."""
    api, script = client(ok(pod("x", 1)))
    await api.create(PODS, {"metadata": {"name": "x", "namespace": "other"}})
    assert script.last.path == "/api/v1/namespaces/other/pods"
    assert script.last.headers["content-type"] == "application/json"
    assert sent(script) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": "other"},
    }


async def test_writes_go_where_they_should() -> None:
    """Method, path and content type of every kind of write."""
    api, script = client(ok(pod("x", 1)))
    await api.replace(PODS, {"metadata": {"name": "x"}}, subresource="status")
    assert (script.last.method, script.last.path) == (
        "PUT",
        "/api/v1/namespaces/default/pods/x/status",
    )
    await api.merge_patch(STATEFUL_SETS, "x", {"a": None}, subresource="status")
    assert script.last.path == "/apis/apps/v1/namespaces/default/statefulsets/x/status"
    assert script.last.headers["content-type"] == "application/merge-patch+json"
    assert sent(script) == {"a": None}
    await api.scale(STATEFUL_SETS, "x", 3)
    assert (script.last.method, script.last.path) == (
        "PATCH",
        "/apis/apps/v1/namespaces/default/statefulsets/x/scale",
    )
    assert sent(script) == {"spec": {"replicas": 3}}


async def test_delete_carries_its_preconditions() -> None:
    """A delete decided from a cached state names the UID and resourceVersion of that state."""
    api, script = client(ok({"kind": "Status", "status": "Success"}))
    gone = await api.delete(
        PODS, "x", uid="u", resource_version="7", grace=0, propagation="Foreground"
    )
    assert gone is None
    assert sent(script) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


STAMP = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("metadata", "lingers"),
    [
        ({}, False),
        ({"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 0}, False),
        ({"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": STAMP, "finalizers": ["a/b"]}, True),
        (
            {
                "deletionTimestamp": STAMP,
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["a/b"],
            },
            True,
        ),
    ],
)
async def test_delete_says_whether_the_object_lingers(
    metadata: dict[str, Any], lingers: bool
) -> None:
    """The last state of an object that is already gone is not mistaken for one that lives."""
    api, _ = client(ok(pod("x", 1, **metadata)))
    assert (await api.delete(PODS, "x") is not None) is lingers


async def test_cluster_scoped_resources_have_no_namespace() -> None:
    """The client's namespace is left out of their paths."""
    api, script = client(ok({"metadata": {"name": "n"}}))
    await api.get(NODES, "n")
    assert script.last.path == "/api/v1/nodes/n"
    await api.get(CRDS, "a.b.c")
    assert script.last.path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b.c"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "a\nb", "a?b"])
async def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    """What would change the meaning of the path is refused before anything is sent."""
    api, script = client(ok({}))
    for call in (api.delete(CONFIG_MAPS, name), api.pods.log(name), api.pods.proxy(name, 80)):
        with pytest.raises(BadRequest):
            await call
    assert script.requests == []


async def test_a_namespaced_object_needs_a_namespace() -> None:
    """An object cannot be looked up in all namespaces at once."""
    api, _ = client(ok({}))
    with pytest.raises(BadRequest, match="namespace"):
        await api.get(PODS, "x", namespace=ALL)


async def test_logs_are_asked_for_with_their_options() -> None:
    """Tail, since and container reach the server; of what is too long the end is kept."""
    api, script = client(ok(b"hello\n"))
    log = await api.pods.log("x", container="main", tail=5, since_seconds=60, limit=4)
    assert log == b"llo\n"
    assert script.last.path == "/api/v1/namespaces/default/pods/x/log"
    assert dict(script.last.query) == {
        "container": "main",
        "tailLines": "5",
        "sinceSeconds": "60",
    }
    async with api.pods.open_log("x", tail=0, follow=True) as chunks:
        assert [chunk async for chunk in chunks] == [b"hello\n"]
    assert dict(script.last.query) == {"tailLines": "0", "follow": "true"}


async def test_the_proxy_passes_everything_on() -> None:
    """Method, path, query, headers and body go to the Pod; its answer comes back as it is."""
    api, script = client(ok(b"teapot", 418, x="y"))
    reply = await api.pods.proxy(
        "x",
        7711,
        "/a b/c",
        method="POST",
        query=[("q", "1"), ("q", "2")],
        headers={"X-Boilerhouse-Token": "t"},
        body=b"data",
    )
    assert (reply.status, reply.body) == (418, b"teapot")
    assert script.last.path == "/api/v1/namespaces/default/pods/x:7711/proxy/a b/c"
    assert script.last.query == (("q", "1"), ("q", "2"))
    assert script.last.headers == {"x-boilerhouse-token": "t"}
    assert (script.last.method, script.last.body) == ("POST", b"data")


@pytest.mark.parametrize("path", ["../../../secrets", "/a/../../x", "/.", "a/./b"])
async def test_a_proxied_path_cannot_leave_the_pod(path: str) -> None:
    """A tenant's request path must not become another call under our name."""
    api, script = client(ok(b""))
    with pytest.raises(BadRequest):
        await api.pods.proxy("x", 80, path)
    assert script.requests == []


@pytest.mark.processes
def test_the_client_alone_does_not_load_the_http_library() -> None:
    """Who talks to the embedded API in process starts without paying for it."""
    names = "boilerhouse.platform.kube.informer, boilerhouse.platform.kube.leader"
    code = f"import sys, {names}; print('httpx2' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert shown.stdout.strip() == "False"
