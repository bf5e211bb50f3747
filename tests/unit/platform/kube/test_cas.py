"""Compare-and-swap writes, and what the informer knows after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from boilerhouse.platform.kube.cas import Writer
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.wire import Reply, Request
from tests.unit.platform.kube.memory import MemoryApi

pytestmark = pytest.mark.looptime

PATH = "/api/v1/namespaces/default/pods/a"


class Seen(NamedTuple):
    name: str
    uid: str
    version: str


class Interrupted(MemoryApi):
    """Lets something happen while an answer is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    async def request(self, request: Request, *, timeout: float | None = None) -> Reply:
        reply = await super().request(request, timeout=timeout)
        self.meanwhile()
        return reply


class Rig:
    """A server with one Pod, which an informer has heard of; the watch tells it nothing more."""

    def __init__(self) -> None:
        self.api = Interrupted()
        self.informer: Informer[Pod] = Informer(Client(self.api), PODS)
        self.writer = Writer(Client(self.api), PODS, self.informer)

    def put(self, **labels: str) -> Seen:
        meta = self.api.put(PATH, {"metadata": {"labels": labels}})["metadata"]
        return Seen(meta["name"], meta["uid"], meta["resourceVersion"])

    def observe(self) -> None:
        self.informer.observe(PODS.decode(msgspec.json.encode(self.api.objects[PATH])))

    @property
    def known(self) -> Pod | None:
        return self.informer.get("default", "a")

    def label(self) -> str:
        assert self.known is not None
        return self.known.metadata.labels["v"]


@pytest.fixture
async def rig() -> Rig:
    rig = Rig()
    rig.put(v="1")
    rig.observe()
    return rig


def seen(rig: Rig) -> Seen:
    assert rig.known is not None
    meta = rig.known.metadata
    return Seen(meta.name, meta.uid, meta.resource_version)


async def test_a_patch_carries_what_was_seen_and_is_known_at_once(rig: Rig) -> None:
    """UID and version, so that no other object and no later one is written to."""
    before = seen(rig)
    written = await rig.writer.patch(before, {"metadata": {"labels": {"v": "2"}}})
    assert written is not None and rig.label() == "2"
    sent = msgspec.json.decode(rig.api.requests[-1][1].body)["metadata"]
    assert (sent["uid"], sent["resourceVersion"]) == (before.uid, before.version)


async def test_a_patch_that_comes_too_late_changes_nothing(rig: Rig) -> None:
    """What is there now is known afterwards: somebody else's version, or that it is gone."""
    before = seen(rig)
    rig.put(v="theirs")
    assert await rig.writer.patch(before, {"metadata": {"labels": {"v": "ours"}}}) is None
    assert rig.label() == "theirs"
    rig.api.remove(PATH)
    assert await rig.writer.patch(before, {"metadata": {"labels": {"v": "ours"}}}) is None
    assert rig.known is None


async def test_only_what_was_seen_is_deleted(rig: Rig) -> None:
    """One that has changed stays; one that is gone, by whomever, is gone from the cache."""
    before = seen(rig)
    rig.put(v="theirs")
    assert await rig.writer.delete(before) is False
    assert rig.label() == "theirs"
    now = seen(rig)
    assert await rig.writer.delete(now) is True
    assert rig.known is None and PATH not in rig.api.objects
    assert await rig.writer.delete(now) is True


async def test_what_lingers_is_known_to_be_going(rig: Rig) -> None:
    """A finalizer holds it: the informer has it with the time of its deletion."""
    rig.api.put(PATH, {"metadata": {"finalizers": ["example.com/x"]}})
    rig.observe()
    assert await rig.writer.delete(seen(rig)) is True
    assert rig.known is not None and rig.known.metadata.deletion_timestamp is not None


async def test_what_is_made_while_we_ask_is_not_forgotten(rig: Rig) -> None:
    """The answer "there is none" is about the one before it."""
    rig.api.remove(PATH)

    def made() -> None:
        rig.put(v="new")
        rig.observe()

    rig.api.meanwhile = made
    assert await rig.writer.refresh("a") is None
    assert rig.label() == "new"


async def test_a_deletion_forgets_no_other_of_that_name(rig: Rig) -> None:
    """Made again by the time that we hear of the end of the first."""

    def made() -> None:
        rig.put(v="new")
        rig.observe()

    rig.api.meanwhile = made
    assert await rig.writer.delete(seen(rig)) is True
    assert rig.label() == "new"
