"""What a lenient reader would let through: odd numbers, empty names, halves of characters."""

from __future__ import annotations

import json

import pytest

from boilerhouse.embedded.fields.numbers import whole_number
from boilerhouse.platform.kube.status import Forbidden
from boilerhouse.platform.kube.wire import Request
from tests.contract.driver import Api

ODD = ["1_0", " 5", "5 ", "٣", "５", "1.0", "0x1", "1e3", "", "-", "9" * 19, "1" * 5000]


@pytest.mark.parametrize("text", ODD)
def test_only_ascii_digits_are_a_number(text: str) -> None:
    """Underscores, blanks, other scripts and what does not fit 64 bits are refused."""
    with pytest.raises(ValueError, match=r"invalid syntax|out of range"):
        whole_number(text)


def test_signs_and_zeros_are_understood() -> None:
    """A number may have a sign and leading zeros."""
    assert [whole_number(text) for text in ("0", "007", "+5", "-3")] == [0, 7, 5, -3]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        *(("limit", value) for value in ("1_0", " 5", "٣")),
        *(("resourceVersion", value) for value in ("1_0", " 5", "٣", "²")),
    ],
)
async def test_a_list_refuses_odd_numbers(api: Api, query: str, value: str) -> None:
    """400, as a real server answers."""
    (await api.get("configmaps", **{query: value})).status(400, "BadRequest")


@pytest.mark.parametrize("value", ["1_0", " 5", "٣"])
async def test_a_watch_and_a_deletion_refuse_odd_numbers(api: Api, value: str) -> None:
    """400 before anything is begun."""
    answer = await api.get("configmaps", watch=1, timeoutSeconds=value)
    answer.status(400, "BadRequest")
    (await api.create("configmaps", {"metadata": {"name": "a"}})).ok()
    path = api.path("configmaps", "a")
    answer = await api.call("DELETE", path, query={"gracePeriodSeconds": value})
    answer.status(400, "BadRequest")
    (await api.get("configmaps", "a")).ok()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces//configmaps",
        "/api/v1/namespaces//configmaps/a",
        "/api/v1/namespaces//",
        "/api/v1/namespaces/default/configmaps//",
        "/api/v1/watch/namespaces//configmaps",
        "/apis/coordination.k8s.io/v1/namespaces//leases",
    ],
)
async def test_an_empty_name_is_not_every_name(api: Api, method: str, path: str) -> None:
    """A path with nothing between two slashes is 404: it never means all namespaces."""
    (await api.create("configmaps", {"metadata": {"name": "a"}})).ok()
    (await api.call(method, path)).status(404, "NotFound")
    (await api.get("configmaps", "a")).ok()


async def test_half_a_character_is_called_so(api: Api) -> None:
    """A lone surrogate in JSON is refused with what it is, in an object and in a patch."""
    body = rb'{"metadata":{"name":"a"},"data":{"k":"\ud800"}}'
    answer = await api.call("POST", api.path("configmaps"), body)
    assert "half of a surrogate pair" in answer.status(400, "BadRequest")["message"]
    pair = rb'{"metadata":{"name":"a"},"data":{"k":"\ud83d\ude00"}}'
    assert (await api.call("POST", api.path("configmaps"), pair)).ok()["data"] == {"k": "😀"}
    patch = rb'{"data":{"k":"\udc00"}}'
    answer = await api.call(
        "PATCH", api.path("configmaps", "a"), patch, content="application/merge-patch+json"
    )
    assert "half of a surrogate pair" in answer.status(400, "BadRequest")["message"]
    truncated = rb'{"metadata":{"name":"a"},"data":{"k":"\ud83d'
    answer = await api.call("POST", api.path("configmaps"), truncated)
    assert "truncated" in answer.status(400, "BadRequest")["message"]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("impersonate-user", 'users "nobody" is forbidden'),
        ("impersonate-group", 'groups "nobody" is forbidden'),
        ("impersonate-uid", 'uids.authentication.k8s.io "nobody" is forbidden'),
        ("impersonate-extra-team", 'cannot impersonate resource "userextras/team"'),
    ],
)
async def test_acting_as_another_user_is_refused(api: Api, header: str, words: str) -> None:
    """`kubectl --as=nobody get secrets` gets 403, not the secrets; a session is refused, too."""
    for path in (api.path("secrets"), "/api", "/openapi/v2"):
        reply = await api.transport.request(Request("GET", path, headers={header: "nobody"}))
        body = json.loads(reply.body)
        assert (reply.status, body["reason"]) == (403, "Forbidden")
        assert words in body["message"]
    path = api.path("pods", "any", "exec")
    request = Request("GET", path, headers={header: "nobody"})
    with pytest.raises(Forbidden):
        async with api.transport.socket(request, ("v5.channel.k8s.io",)):
            pass
