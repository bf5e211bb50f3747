"""Release, once more, or by force: what is answered when, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.core.clock import parse_time
from boilerhouse.core.names import NAMESPACE
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from tests.unit.edge.api.conftest import Rest, archive, opened_helper, opened_rest, soon
from tests.unit.edge.api.files import Files

pytestmark = pytest.mark.slow

WEB = {"workload": "web"}
RELEASE = "/tenants/alice/release"


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
async def rest(tmp_path: Path, files: Files) -> AsyncIterator[Rest]:
    """A services whose instances have files to save."""
    async with opened_rest(tmp_path / "data", files=files) as opened:
        await opened.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
        yield opened


@pytest.fixture
async def failed(rest: Rest, files: Files) -> Rest:
    """The same, with a release that could not be saved."""
    await rest.claim("alice")
    files.failing = "the volume is full"
    answer = await rest.post(RELEASE, WEB)
    assert answer.status_code == 409, answer.text
    return rest


async def test_a_release_says_what_was_saved(rest: Rest, files: Files) -> None:
    """200, Released, and the version; the tenant's next claim has it back."""
    await rest.claim("alice")
    body = (await rest.post(RELEASE, WEB)).json()
    assert (body["status"], body["phase"]) == ("released", "Released")
    assert body["snapshot"] == {"digest": files.stored["alice", "web"], "current": True}
    again = await rest.claim("alice")
    assert (again.status_code, again.json()["source"]) == (201, "cold+data")
    assert files.restored == [body["snapshot"]["digest"]]


async def test_what_could_not_be_kept_is_told(rest: Rest, files: Files) -> None:
    """The answer names it: the claim is gone."""
    await rest.claim("alice")
    files.skipped = ("workspace/s: a socket",)
    body = (await rest.post(RELEASE, WEB)).json()
    assert body["detail"] == "released; not in any snapshot: workspace/s: a socket"
    assert body["snapshot"]["current"]


async def test_nothing_is_run_in_an_instance_that_is_being_saved(rest: Rest, files: Files) -> None:
    """409 at once, with what to do: a command would hang, and end with the instance."""
    name = (await rest.claim("alice")).json()["instanceId"]
    files.gate = asyncio.Event()
    releasing = asyncio.create_task(rest.post(RELEASE, WEB))
    claims = rest.services.informers.claims.cache
    await soon(lambda: [phase_of(claim) for claim in claims.values()] == ["Releasing"])
    answer = await rest.post(f"/instances/{name}/exec", {"command": ["echo"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "InstanceHalted")
    assert "its files are being saved" in answer.json()["error"]
    files.gate.set()
    assert (await releasing).json()["phase"] == "Released"


async def test_a_save_beside_the_current_version_is_told(rest: Rest, files: Files) -> None:
    """Nothing is lost, and the answer says that it is not what a claim restores."""
    await rest.claim("alice")
    files.side_version = True
    body = (await rest.post(RELEASE, WEB)).json()
    assert (body["phase"], body["snapshot"]["current"]) == ("Released", False)


async def test_what_was_saved_aside_can_be_found(tmp_path: Path) -> None:
    """The claim goes, and its condition with it: the answer says which version, and what to do."""
    files = Files(side_version=True)
    async with (
        opened_helper(tmp_path / "snapshots") as helper,
        opened_rest(tmp_path / "data", helper=helper, files=files) as rest,
    ):
        await rest.world.ready_workload(filesystem={"overlayDirs": ["/workspace"]})
        path = "/api/v1/tenants/alice/workloads/web/snapshots"
        stored = [
            (await rest.http.put(path, content=archive(a=text))).json() for text in ("mine", "new")
        ]
        files.saves = stored[0]["digest"]
        await rest.claim("alice")
        body = (await rest.post(RELEASE, WEB)).json()
    mine = stored[0]
    assert body["snapshot"] == {
        **{name: mine[name] for name in ("digest", "version", "size", "createdAt")},
        "path": f"/snapshots/.v/alice/web/1-{mine['digest']}.tar.gz",
        "current": False,
    }
    assert body["detail"].startswith("released; version ")
    assert "restore it to make it current" in body["detail"]


async def test_a_release_that_cannot_save_says_when_it_is_tried_again(failed: Rest) -> None:
    """409 with the attempts, the last error and the next try; the instance stays."""
    claim = (await failed.get("/tenants/alice")).json()["claims"][0]
    assert (claim["phase"], bool(claim["instanceId"])) == ("ReleaseFailed", True)
    answer = await failed.post(RELEASE, WEB)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "ReleaseFailed")
    assert body["details"]["attempts"] >= 3
    assert "the volume is full" in body["details"]["lastError"]
    assert parse_time(body["details"]["nextTryAt"]) > failed.world.clock.now()


async def test_what_becomes_of_a_failed_release_is_explained(failed: Rest) -> None:
    """`…/idle` says when saving is tried again, what follows, and that a claim prevents it."""
    told = (await failed.get("/tenants/alice/workloads/web/idle")).json()
    claim = await failed.world.client.get(CLAIMS, told["claim"])
    assert claim.status is not None and claim.status.release is not None
    assert told["state"] == "releasefailed" and "the volume is full" in told["why"]
    assert parse_time(told["deadline"]) == claim.status.release.next_try_at
    assert 0 < told["secondsLeft"] <= 60
    assert told["then"].startswith("saving is tried again at")
    assert "claimed before, it is the tenant's again" in told["then"]
    await failed.world.client.delete(CLAIMS, told["claim"])
    await soon(lambda: _is_deleted(failed, told["claim"]))
    await failed.world.claimed(told["claim"], "ReleaseFailed")
    told = (await failed.get("/tenants/alice/workloads/web/idle")).json()
    assert "tried again at" in told["then"] and "claimed before" not in told["then"]


def _is_deleted(rest: Rest, name: str) -> bool:
    claim = rest.services.informers.claims.get(NAMESPACE, name)
    return claim is not None and claim.metadata.deletion_timestamp is not None


async def test_a_retry_is_made_now(failed: Rest, files: Files) -> None:
    """Once the cause is gone it goes through, a minute before its turn."""
    files.failing = ""
    body = (await failed.post(f"{RELEASE}/retry", WEB)).json()
    assert (body["phase"], body["snapshot"]["current"]) == ("Released", True)


async def test_force_says_first_what_is_lost(failed: Rest, files: Files) -> None:
    """A dry run says it and does nothing; then the instance goes, and nothing was saved."""
    told = await failed.post(f"{RELEASE}/force", WEB, params={"dryRun": "true"})
    assert told.status_code == 200, told.text
    lost = told.json()["lost"]
    assert told.json()["status"] == "kept"
    assert "everything that the tenant wrote since" in lost["detail"]
    assert "nobody can say if a version is stored" in lost["detail"]
    assert lost["lastSnapshot"] is None
    assert lost["usage"] is None
    assert len(lost["unknown"]) == 2
    assert (await failed.get("/tenants/alice")).status_code == 200
    done = await failed.post(f"{RELEASE}/force", WEB)
    assert (done.status_code, done.json()["status"]) == (200, "released")
    assert done.json()["lost"]["detail"] == lost["detail"]
    assert files.stored == {}
    assert (await failed.get("/tenants/alice")).status_code == 404


async def test_claiming_again_gives_the_living_instance_back(failed: Rest, files: Files) -> None:
    """`existing`, the same instance, and nothing was moved."""
    before = (await failed.get("/tenants/alice")).json()["claims"][0]["instanceId"]
    again = await failed.claim("alice")
    assert (again.status_code, again.json()["source"]) == (200, "existing")
    assert again.json()["instanceId"] == before
    assert files.restored == []


async def test_a_deleted_claim_cannot_be_claimed_again(rest: Rest, files: Files) -> None:
    """Nobody takes back a deletion: 409 at once, with the ways out; after one of them it works."""
    made = (await rest.claim("alice")).json()
    files.failing = "the volume is full"
    await rest.world.client.delete(CLAIMS, made["claim"])
    held = await rest.claim("alice")  # it waits for the release, and hears that it failed
    again = await rest.claim("alice", params={"wait": 300})
    for answer in (held, again):
        body = answer.json()
        assert (answer.status_code, body["code"]) == (409, "ClaimDeleted"), answer.text
        assert "the volume is full" in body["error"] and "release/retry" in body["error"]
        assert body["details"]["claim"] == made["claim"]
        assert parse_time(body["details"]["nextTryAt"]) > rest.world.clock.now()
    instances = [pod.metadata.name for pod in await rest.world.pods(tenant="alice")]
    assert instances == [made["instanceId"]]
    files.failing = ""
    assert (await rest.post(f"{RELEASE}/retry", WEB)).json()["phase"] == "Released"
    back = await rest.claim("alice")
    assert (back.status_code, back.json()["source"]) == (201, "cold+data")


async def test_a_deleted_claim_that_is_forced_makes_room(rest: Rest, files: Files) -> None:
    """Whoever gives the files up may claim: a new claim, a new instance."""
    made = (await rest.claim("alice")).json()
    files.failing = "the volume is full"
    await rest.world.client.delete(CLAIMS, made["claim"])
    await rest.world.claimed(made["claim"], "ReleaseFailed")
    assert (await rest.post(f"{RELEASE}/force", WEB)).json()["status"] == "released"
    back = await rest.claim("alice")
    assert (back.status_code, back.json()["source"]) == (201, "cold")


@pytest.mark.parametrize("wish", ["retry", "force"])
async def test_only_what_failed_is_retried_or_forced(rest: Rest, wish: str) -> None:
    """409 for a tenant that is Active, 404 for one without a claim, 400 without a workload."""
    assert (await rest.post(f"{RELEASE}/{wish}", WEB)).status_code == 404
    assert (await rest.post(f"{RELEASE}/{wish}", {})).status_code == 400
    await rest.claim("alice")
    answer = await rest.post(f"{RELEASE}/{wish}", WEB)
    assert (answer.status_code, answer.json()["code"]) == (409, "NotFailed")


async def test_an_idle_instance_is_hibernated_and_revived(rest: Rest, files: Files) -> None:
    """Released with `idle` in the detail, the claim stays, and the next call gets its files."""
    await rest.world.ready_workload(
        "nap",
        filesystem={"overlayDirs": ["/workspace"]},
        idle={"timeoutSeconds": 1, "watchDirs": ["/workspace"]},
    )
    made = (await rest.claim("alice", "nap")).json()
    claim = await rest.world.claimed(made["claim"], "Released")
    assert claim.status is not None
    assert "idle for 1 s" in claim.status.detail
    told = (await rest.get("/tenants/alice/workloads/nap/idle")).json()
    assert (told["state"], "idle for 1 s" in told["why"]) == ("released", True)
    assert "brings the instance back" in told["then"]
    back = await rest.claim("alice", "nap")
    assert (back.status_code, back.json()["source"]) == (201, "cold+data")
    assert files.restored == [files.stored["alice", "nap"]]


async def test_an_idle_instance_with_destroy_is_not_saved(rest: Rest, files: Files) -> None:
    """S3: destroy skips extraction; what is stored stays. The claim goes after its time."""
    files.stored["alice", "nap"] = "0" * 64
    await rest.world.ready_workload(
        "nap",
        filesystem={"overlayDirs": ["/workspace"]},
        idle={"timeoutSeconds": 1, "action": "destroy", "releasedTTLSeconds": 1},
    )
    made = (await rest.claim("alice", "nap")).json()
    await rest.world.claimed(made["claim"], "Released")
    await rest.world.gone(CLAIMS, made["claim"])
    assert files.stored["alice", "nap"] == "0" * 64
    await soon(lambda: not rest.services.informers.claims.cache)
