"""What operator and API use: found through the Kubernetes API, told apart when it fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from boilerhouse.core import claimtoken
from boilerhouse.core.errors import Retry, Terminal
from boilerhouse.core.names import AGENT_PORT
from boilerhouse.node.agent.protocol import Listing
from boilerhouse.node.helper import layout
from boilerhouse.platform.kube import wire
from boilerhouse.platform.kube.kinds import ObjectMeta, Pod, PodStatus
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.platform.rpc.message import Answer, Body, Handler, Request
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.snapshots import build, filing
from boilerhouse.tenancy.snapshots.agents import Agents, AgentUnavailable, reached_at
from boilerhouse.tenancy.snapshots.client import HelperClient, HelperUnavailable
from boilerhouse.tenancy.snapshots.filing import HelperSnapshots
from boilerhouse.tenancy.snapshots.identities import HelperIdentities
from boilerhouse.tenancy.snapshots.routes import Direct, Proxied
from boilerhouse.tenancy.snapshots.snapshots import SnapshotClient
from tests.unit.node.agent.agent_fixture import SECRET, running
from tests.unit.node.helper.helper_fixture import INSTANCE, SPEC, House, placed

ANNA = Identity("anna", "shop", "claim-anna", "uid-1", ())
KEY = bytes(32)


class ThroughTheServer:
    """A kubelet of the embedded API: it passes a proxied request on to the helper's port."""

    def __init__(self, helper: Handler) -> None:
        self._helper = helper

    async def proxy(
        self, pod: object, port: str, path: str, request: wire.Request
    ) -> wire.Reply | wire.Stream:
        answer = await self._helper(
            Request(request.method, path, request.query, request.headers, Body(request.body))
        )

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.body:
                    yield piece
            finally:
                await answer.body.close()

        return wire.Stream(answer.status, pieces(), answer.headers)


def direct(house: House) -> HelperClient:
    return HelperClient(house.client, Direct(house.client), Agents(house.client))


async def through_proxy(house: House) -> HelperClient:
    assert house.world.server is not None
    node = ThroughTheServer(Direct(house.client))
    house.world.server.nodes["here"] = node  # type: ignore[assignment]  # only its proxy is asked
    binding = {"metadata": {"name": layout.POD}, "target": {"kind": "Node", "name": "here"}}
    path = PODS.path(house.client.namespace, layout.POD, "binding")
    await house.client.raw("POST", path, binding)
    return HelperClient(house.client, Proxied(house.client), Agents(house.client))


async def in_process(house: House) -> HelperClient:
    return HelperClient(house.client, house.helper.handle, Agents(house.client))


@pytest.fixture(params=["direct", "proxied", "in process"])
async def helper(request: pytest.FixtureRequest, house: House) -> HelperClient:
    """Each way to the helper."""
    match request.param:
        case "direct":
            return direct(house)
        case "proxied":
            return await through_proxy(house)
        case _:
            return await in_process(house)


async def test_files(house: House, helper: HelperClient) -> None:
    """Files go in and out, directories are listed, what is not there is refused with its status."""
    content = os.urandom(1 << 20)
    await helper.write_file(INSTANCE, "/workspace/a/b", Body(content))
    async with helper.open_file(INSTANCE, "/workspace/a/b") as body:
        assert isinstance(body, Body)
        assert await body.read(2 << 20) == content
    async with helper.open_file(INSTANCE, "/workspace/a") as listing:
        assert isinstance(listing, Listing)
        assert [(entry.name, entry.size) for entry in listing.entries] == [("b", 1 << 20)]
    await helper.delete_file(INSTANCE, "/workspace/a/b", uid=house.pod.metadata.uid)
    with pytest.raises(Refused, match="is not there") as refused:
        async with helper.open_file(INSTANCE, "/workspace/a/b"):
            pass
    assert (refused.value.status, refused.value.code) == (404, "not-found")


async def test_a_helper_that_is_silent_is_unavailable_soon(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim waits for what is stored, and may say what for long before a connection ends."""

    async def silent(request: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError(request)

    monkeypatch.setattr(filing, "PATIENCE", 0.05)
    agents = Agents(house.client)
    files = HelperSnapshots(SnapshotClient(house.client, silent, agents), direct(house))
    with pytest.raises(HelperUnavailable, match=r"does not answer within 0\.05 s"):
        await files.current("anna", "shop")


async def test_usage_and_changes(house: House, helper: HelperClient) -> None:
    """Figures of the agent arrive as they are."""
    (house.rig.workspace / "f").write_bytes(b"x" * 10_000)
    assert (await helper.usage(INSTANCE)).used >= 10_000
    changes = await helper.changes(INSTANCE, ["/workspace"], since=0)
    assert changes.newest is not None
    [outside] = (await helper.changes(INSTANCE, ["/etc"])).unreadable
    assert outside.startswith("'/etc' is in no overlay directory")


async def test_identities(house: House, helper: HelperClient) -> None:
    """A claim's identity becomes files, with a token that the server's key believes."""
    identities = HelperIdentities(helper, KEY, "http://127.0.0.1:3000")
    await identities.deliver(INSTANCE, house.pod.metadata.uid, ANNA)
    assert (house.rig.identity / "tenant").read_text() == "anna"
    assert (house.rig.identity / "api-url").read_text() == "http://127.0.0.1:3000"
    token = (house.rig.identity / "token").read_text()
    assert claimtoken.verify(KEY, token) == "uid-1"
    other = Identity("ben", "shop", "claim-ben", "uid-2", ())
    with pytest.raises(Terminal, match="anna"):
        await identities.deliver(INSTANCE, house.pod.metadata.uid, other)


async def test_another_instance_of_the_same_name(house: House) -> None:
    """Told for which instance, nothing reaches a later one of the same name."""
    identities = HelperIdentities(direct(house), KEY, "x")
    with pytest.raises(Retry, match="another one has its name"):
        await identities.deliver(INSTANCE, "earlier-uid", ANNA)
    with pytest.raises(AgentUnavailable, match="is gone"):
        await direct(house).usage("nobody")
    assert not (house.rig.identity / "tenant").exists()


async def test_an_instance_without_an_address(house: House) -> None:
    """An instance that has not started yet is unavailable, not an error."""
    await house.client.create(PODS, {"metadata": {"name": "new"}, "spec": SPEC})
    with pytest.raises(AgentUnavailable, match="no address"):
        await direct(house).usage("new")
    await placed(house.client, {"metadata": {"name": "bare"}, "spec": SPEC}, AGENT_PORT, 1)
    with pytest.raises(AgentUnavailable, match="token"):
        await direct(house).usage("bare")


async def test_a_dead_agent_is_not_a_dead_helper(house: House, helper: HelperClient) -> None:
    """Whose fault it is can be told: the agent's."""
    await house.rig.agent.stop()
    with pytest.raises(AgentUnavailable, match=INSTANCE):
        await helper.usage(INSTANCE)


async def test_a_new_agent_of_the_same_name(house: House, helper: HelperClient) -> None:
    """An instance made anew has another address and token: both are looked up again."""
    await helper.usage(INSTANCE)
    await house.client.delete(PODS, INSTANCE, grace=0)
    await house.client.delete(SECRETS, f"agent-{INSTANCE}")
    directory = house.rig.workspace.parent / "second"
    directory.mkdir()
    async with running(directory) as second:
        await house.client.create(SECRETS, build_agent_secret())
        body = {"metadata": {"name": INSTANCE}, "spec": SPEC}
        await placed(house.client, body, AGENT_PORT, second.port)
        (second.workspace / "new").touch()
        assert (await helper.usage(INSTANCE)).entries == 1


def build_agent_secret() -> dict[str, object]:
    from boilerhouse.tenancy.instances.build import agent_secret

    return agent_secret(INSTANCE, SECRET)


async def test_no_helper(house: House) -> None:
    """A helper that is down, deleted or not set up is `HelperUnavailable`, whatever the way."""
    for route in (Direct(house.client), Proxied(house.client)):
        helper = HelperClient(house.client, route, Agents(house.client))
        if isinstance(route, Direct):
            await helper.usage(INSTANCE)
            await house.helper.stop()
        with pytest.raises(HelperUnavailable):
            await helper.usage(INSTANCE)
    await house.client.delete(PODS, layout.POD, grace=0)
    with pytest.raises(HelperUnavailable, match="no Pod"):
        await direct(house).usage(INSTANCE)
    await house.client.delete(SECRETS, layout.SECRET)
    with pytest.raises(HelperUnavailable, match="not set up"):
        await direct(house).usage(INSTANCE)


async def test_a_helper_with_another_token(house: House) -> None:
    """A Secret made anew is read again after the first refusal."""
    helper = direct(house)
    await house.client.delete(SECRETS, layout.SECRET)
    await house.client.create(SECRETS, build.helper_secret("a-token-that-is-not-the-helpers"))
    with pytest.raises(HelperUnavailable, match="another token"):
        await helper.usage(INSTANCE)
    await house.client.delete(SECRETS, layout.SECRET)
    await house.client.create(SECRETS, build.helper_secret("the-token-of-the-helper"))
    assert (await helper.usage(INSTANCE)).complete


async def test_an_answer_of_the_server_itself_is_not_the_helpers(house: House) -> None:
    """An error page of the API server on the way is not taken for the helper's word."""

    async def page(request: Request) -> Answer:
        return Answer(404, Body(b'{"kind": "Status", "code": 404}'))

    assert house.world.server is not None
    client = await through_proxy(house)
    house.world.server.nodes["here"] = ThroughTheServer(page)  # type: ignore[assignment]  # as above
    with pytest.raises(HelperUnavailable, match="API server"):
        await client.usage(INSTANCE)
    with pytest.raises(HelperUnavailable, match="API server"):
        await client.delete_file(INSTANCE, "/workspace/a")


@pytest.mark.slow
async def test_what_does_not_pass_the_api_server(house: House) -> None:
    """Names that are no text, and bodies that are too large, are refused before they are sent."""
    client = await through_proxy(house)
    with pytest.raises(Refused, match="UTF-8"):
        await client.delete_file(INSTANCE, "/workspace/\udcff")
    with pytest.raises(Refused, match="larger"):
        await client.write_file(INSTANCE, "/workspace/a", Body(b"x" * (3 << 20)))


def test_where_a_port_is() -> None:
    """At the Pod's address; elsewhere if the node moved it; in brackets for IPv6."""

    def pod(ip: str, ports: str = "") -> Pod:
        annotations = {"boilerhouse.dev/ports": ports} if ports else {}
        return Pod(metadata=ObjectMeta(annotations=annotations), status=PodStatus(pod_ip=ip))

    assert reached_at(pod("10.0.0.1"), 7711) == "10.0.0.1:7711"
    assert reached_at(pod("127.1.2.3", "80:81,7711:40000"), 7711) == "127.1.2.3:40000"
    assert reached_at(pod("fd00::1"), 7711) == "[fd00::1]:7711"
