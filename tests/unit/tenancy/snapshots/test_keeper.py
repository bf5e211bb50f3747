"""Keeping the helper there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.names import TEMPLATE
from boilerhouse.node.helper import layout
from boilerhouse.operator.keepers import helper
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, PVCS, SECRETS
from boilerhouse.tenancy.snapshots import build
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.decide import Create, DeletePod, PodSeen, Seen, decide
from tests.controllers.operator_fixture import Kept
from tests.unit.node.helper.helper_fixture import api
from tests.waiting import until, until_found

POD = PodSeen("uid", "1", "today", ended=False, terminating=False)
FINE = Seen("secret", volume_claim=True, pod=POD, wanted="today")


@pytest.mark.parametrize(
    ("seen", "plan"),
    [
        (FINE, ()),
        (Seen(None, False, None, None), (Create("secret"), Create("volume claim"))),
        (Seen(None, True, POD, None), (Create("secret"),)),
        (Seen("secret", False, POD, "today"), (Create("volume claim"),)),
        (Seen("secret", True, None, "today"), (Create("pod"),)),
        (
            Seen("secret", True, PodSeen("uid", "1", "today", True, False), "today"),
            (DeletePod("uid", "1", "it has ended"),),
        ),
        (
            Seen("secret", True, POD, "tomorrow"),
            (DeletePod("uid", "1", "it was built from another template"),),
        ),
        (Seen("secret", True, PodSeen("uid", "1", "old", True, True), "today"), ()),
    ],
)
def test_decisions(seen: Seen, plan: object) -> None:
    """What is missing is made, Pod last; what has ended or is of yesterday goes."""
    assert decide(seen) == plan


def test_the_pod() -> None:
    """The helper runs as nobody, with the token and the volume and nothing else."""
    pod = build.helper_pod(HelperSettings(image="i"), "uid")
    spec = pod["spec"]
    [container] = spec["containers"]
    assert pod["metadata"]["name"] == "boilerhouse-snapshot-helper"
    assert "boilerhouse.dev/managed" not in pod["metadata"]["labels"]
    assert (container["image"], container["args"]) == ("i", ["snapshot-helper"])
    assert "env" not in container
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/run/boilerhouse-helper",
        "/snapshots",
    ]


def test_the_hash_follows_what_matters() -> None:
    """Another image or another Secret makes another Pod; the same makes the same."""
    hashes = {
        build.template_hash(settings, uid)
        for settings in (HelperSettings(), HelperSettings(), HelperSettings(image="other"))
        for uid in ("a", "b")
    }
    assert len(hashes) == 4


@asynccontextmanager
async def kept(client: Client, settings: HelperSettings | None = None) -> AsyncIterator[None]:
    manager = Kept(SystemClock(), helper(client, settings or HelperSettings())).manager
    stopping = asyncio.Event()
    running = asyncio.create_task(manager.run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await running


async def test_the_helper_is_made_and_made_again(tmp_path: Path) -> None:
    """Started, the keeper makes all three; the Pod deleted, another one comes."""
    async with api(tmp_path) as (_, client), kept(client):
        first = await until_found(client, PODS, layout.POD)
        assert (await client.get(SECRETS, layout.SECRET)).data["token"]
        assert (await client.get(PVCS, layout.VOLUME_CLAIM)).spec.access_modes == ["ReadWriteOnce"]
        await client.delete(PODS, layout.POD, grace=0)

        def another(pod: Pod | None) -> bool:
            return pod is not None and pod.metadata.uid != first.metadata.uid

        await until(client, PODS, layout.POD, another)


async def test_a_helper_of_another_template_is_replaced(tmp_path: Path) -> None:
    """A new image in the settings brings a new Pod; the Secret, and so the token, stays."""
    async with api(tmp_path) as (_, client):
        async with kept(client):
            old = await until_found(client, PODS, layout.POD)
        secret = await client.get(SECRETS, layout.SECRET)
        settings = HelperSettings(image="boilerhouse:2")
        async with kept(client, settings):

            def new(pod: Pod | None) -> bool:
                return pod is not None and pod.metadata.labels[TEMPLATE] == build.template_hash(
                    settings, secret.metadata.uid
                )

            seen = await until(client, PODS, layout.POD, new)
        assert seen[-1] is not None
        assert seen[-1].metadata.uid != old.metadata.uid
        assert (await client.get(SECRETS, layout.SECRET)).data == secret.data
