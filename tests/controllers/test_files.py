"""A tenant's files on their way out and back, with a pretended kubelet, helper and hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.typing import EventDict

from boilerhouse.core import names
from boilerhouse.core.clock import FakeClock, rfc3339
from boilerhouse.platform.kube.resources import EVENTS, PODS, Key
from boilerhouse.tenancy.claims.decide import error_reason
from boilerhouse.tenancy.claims.model import ClaimStatus, Source
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.claims.requests.release import NotClaimed, NotFailed, would_lose
from boilerhouse.tenancy.claims.seen import Mode, SavedSeen
from boilerhouse.tenancy.claims.snapshots import (
    CorruptVersion,
    HookFailed,
    NoSuchVersion,
    TooLarge,
    UnfitVersion,
)
from boilerhouse.tenancy.instances.build import RESTORE_VARIABLE
from tests.controllers.operator_fixture import World, frozen, opened, started
from tests.unit.edge.api.files import Files

KEPT: dict[str, Any] = {"filesystem": {"overlayDirs": ["/data"]}}
HOOKS = {
    "preHibernate": {"command": ["/bin/flush"]},
    "postRestore": {"command": ["/bin/warm-up"], "onFailure": "continue"},
}
NAME = names.claim_name("alice", "web")


@dataclass
class Shelf(Files):
    """Files that tell what was done, and versions that are bad or gone; also hooks."""

    story: list[str] = field(default_factory=list)
    bad: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    large: set[str] = field(default_factory=set)
    unfit: set[str] = field(default_factory=set)
    older: str = ""
    bug: str = ""  # what is wrong in the code behind it

    async def previous(self, tenant: str, workload: str, digest: str) -> str:
        return self.older

    async def restore(
        self, pod: str, uid: str, *, tenant: str, workload: str, digest: str, mode: Mode
    ) -> tuple[str, ...]:
        if self.bug:
            self.story.append("restore")
            raise ValueError(self.bug)
        if digest in self.bad:
            raise CorruptVersion("its hash is another")
        if digest in self.unfit:
            raise UnfitVersion("'l' is no directory")
        if digest in self.large:
            raise TooLarge("it has over 2 GiB")
        if digest in self.gone:
            raise NoSuchVersion("not there")
        self.story.append(f"restore {mode}")
        await super().restore(pod, uid, tenant=tenant, workload=workload, digest=digest, mode=mode)
        return ("old/place",)

    async def save(self, pod: str, uid: str, **order: Any) -> SavedSeen:
        self.story.append(f"save {order['epoch']}")
        if self.bug:
            raise ValueError(self.bug)
        return await super().save(pod, uid, **order)

    async def thaw(self, pod: str, uid: str, *, epoch: int) -> None:
        self.story.append(f"thaw {epoch}")

    async def run(self, pod: str, command: Sequence[str], timeout: timedelta) -> None:
        self.story.append(command[0])
        raise HookFailed("it did not like it")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def kept(tmp_path: Path, shelf: Shelf) -> AsyncIterator[World]:
    """A world whose workload keeps files, with operator and kubelet at work."""
    async with opened(tmp_path / "data") as world:
        world.operator = world.another_operator(snapshots=shelf, hooks=shelf)
        async with started(world.kubelet.manager, world.operator):
            for informer in world.operator.informers:
                await informer.wait_synced()
            await world.ready_workload(**KEPT, hooks=HOOKS)
            yield world


async def status_of(world: World) -> ClaimStatus:
    found = await world.client.get(CLAIMS, NAME)
    assert found.status is not None
    return found.status


async def test_a_release_saves_and_the_next_claim_restores(kept: World, shelf: Shelf) -> None:
    """Hooks run at their turns; a cold Pod is born to wait; failures of hooks may not count."""
    acquire, release = kept.operator.acquirer.acquire, kept.operator.releaser.release
    first = await acquire("alice", "web")
    assert first.source == Source.COLD
    gone = await release("alice", "web")
    assert (gone.phase, gone.saved) == ("Released", shelf.stored["alice", "web"])
    assert await kept.pods(tenant="alice") == []
    again = await acquire("alice", "web")
    assert again.source == Source.COLD_DATA
    assert again.claim is not None and again.claim.status is not None
    refs = again.claim.status.snapshot
    assert refs is not None and refs.restored == refs.base == gone.saved
    pod = await kept.client.get(PODS, again.claim.status.instance_id)
    assert pod.metadata.annotations[names.RESTORED] == f"{gone.saved}/"
    [agent] = pod.spec.init_containers
    assert {v.name: v.value for v in agent.env}[RESTORE_VARIABLE] == gone.saved
    assert shelf.story == ["/bin/flush", "save 1", "restore cold", "/bin/warm-up"]
    told = {c.type: c.message for c in again.claim.status.conditions}
    assert "old/place" in told["DataRestored"]


async def test_a_replica_leaves_files_and_hooks_to_the_operator(kept: World, shelf: Shelf) -> None:
    """What takes long is done once, by who reconciles, however many processes walk the claim."""
    replica = kept.another_operator(snapshots=shelf, hooks=shelf, reconcile=False)
    async with started(replica):
        for informer in replica.informers:
            await informer.wait_synced()
        assert (await replica.acquirer.acquire("alice", "web")).source == Source.COLD
        assert (await replica.releaser.release("alice", "web")).phase == "Released"
        assert (await replica.acquirer.acquire("alice", "web")).source == Source.COLD_DATA
    assert shelf.story == ["/bin/flush", "save 1", "restore cold", "/bin/warm-up"]


async def test_a_warm_instance_is_filled(kept: World, shelf: Shelf) -> None:
    """Its source is pool+data; resume false starts clean, and its save says so."""
    shelf.stored["alice", "web"] = shelf.stored["bob", "web"] = "d" * 64
    await kept.full_pool(size=2)
    got = await kept.operator.acquirer.acquire("alice", "web")
    assert (got.source, shelf.story[0]) == (Source.POOL_DATA, "restore restart")
    clean = await kept.operator.acquirer.acquire("bob", "web", resume=False)
    assert clean.source == Source.POOL
    assert clean.claim is not None and clean.claim.status is not None
    assert clean.claim.status.snapshot is not None
    assert (clean.claim.status.snapshot.base, clean.claim.status.snapshot.restored) == (
        "d" * 64,
        "",
    )
    for tenant in ("alice", "bob"):
        assert (await kept.operator.releaser.release(tenant, "web")).phase == "Released"
    assert (shelf.bases, shelf.cleans) == (["d" * 64] * 2, [False, True])


@pytest.mark.slow
async def test_a_helper_that_is_away_is_waited_for_only_by_who_needs_it(
    kept: World, shelf: Shelf
) -> None:
    """Resume false starts; who may have files waits, and says so in its detail and by an Event."""
    shelf.stored["bob", "web"] = "d" * 64
    shelf.away = "the snapshot helper does not run"
    clean = await kept.operator.acquirer.acquire("bob", "web", resume=False)
    assert (clean.phase, clean.source) == ("Active", Source.COLD)
    waits = await kept.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=1))
    assert waits.phase == "Pending" and waits.claim is not None and waits.claim.status is not None
    words = "waiting for the snapshot helper, which must say whether files are stored:"
    assert waits.claim.status.detail == f"{words} {shelf.away}"
    await kept.settles(lambda: _is_told(kept, "SnapshotsUnavailable", words))
    shelf.away = ""
    found = await kept.claimed(NAME)
    assert found.status is not None and found.status.detail == ""
    # What is stored is what the clean start may replace, though nobody knew when it started.
    gone = await kept.operator.releaser.release("bob", "web")
    assert (gone.phase, gone.side_version, shelf.bases) == ("Released", "", ["d" * 64])


async def test_a_helper_that_is_silent_does_not_hold_up_a_clean_start(
    kept: World, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be known: it is asked for a moment, and then left for later."""
    monkeypatch.setattr("boilerhouse.tenancy.claims.applying.files.LITTLE_PATIENCE", 0.05)
    shelf.silent = True
    clean = await kept.operator.acquirer.acquire("bob", "web", resume=False)
    assert (clean.phase, clean.source) == ("Active", Source.COLD)


async def test_a_damaged_version_is_never_an_empty_instance(kept: World, shelf: Shelf) -> None:
    """Error names it; the one before it is restored only if somebody says so."""
    shelf.stored["alice", "web"] = "d" * 64
    shelf.bad.add("d" * 64)
    got = await kept.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=10))
    assert got.phase == "Error"
    status = await status_of(kept)
    assert error_reason(status) == "RestoreFails" and "d" * 64 in status.detail
    shelf.older = "e" * 64
    wish = {"metadata": {"annotations": {names.RESTORE_PREVIOUS: "true"}}}
    await kept.client.merge_patch(CLAIMS, NAME, wish)
    found = await kept.claimed(NAME)
    assert found.status is not None and found.status.snapshot is not None
    assert (found.status.snapshot.base, found.status.snapshot.restored) == ("d" * 64, "e" * 64)


async def test_without_an_older_version_it_stays_an_error(kept: World, shelf: Shelf) -> None:
    """Nothing is better than something made up; a version that is gone is one as well."""
    shelf.stored["alice", "web"] = "d" * 64
    shelf.bad.add("d" * 64)
    name = await kept.claim("alice")
    wish = {"metadata": {"annotations": {names.RESTORE_PREVIOUS: "true"}}}
    await kept.client.merge_patch(CLAIMS, name, wish)
    found = await kept.until(
        CLAIMS, name, lambda c: c.status is not None and "no good version" in c.status.detail
    )
    assert found.status.phase == "Error"
    shelf.stored["bob", "web"] = "c" * 64
    shelf.gone.add("c" * 64)
    got = await kept.operator.acquirer.acquire("bob", "web", wait=timedelta(seconds=10))
    assert got.phase == "Error"


async def test_a_version_that_has_no_room_is_an_error_at_once(kept: World, shelf: Shelf) -> None:
    """It names the limit and what to do, and is not taken for a damaged one."""
    shelf.stored["alice", "web"] = "d" * 64
    shelf.large.add("d" * 64)
    got = await kept.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=10))
    assert got.phase == "Error"
    status = await status_of(kept)
    assert "over 2 GiB" in status.detail and "give the workload more disk" in status.detail
    assert "damaged" not in status.detail


@pytest.mark.slow
async def test_a_version_that_no_instance_takes_is_an_error_at_once(
    kept: World, shelf: Shelf
) -> None:
    """It is refused again however often it is tried; the one before it can be had instead."""
    shelf.stored["alice", "web"], shelf.older = "d" * 64, "c" * 64
    shelf.unfit.add("d" * 64)
    got = await kept.operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=10))
    assert got.phase == "Error"
    status = await status_of(kept)
    assert "cannot be restored ('l' is no directory)" in status.detail
    assert "restore-previous=true" in status.detail and "damaged" not in status.detail
    wish = {"metadata": {"annotations": {names.RESTORE_PREVIOUS: "true"}}}
    await kept.client.merge_patch(CLAIMS, NAME, wish)
    found = await kept.claimed(NAME)
    assert found.status is not None and found.status.snapshot is not None
    assert found.status.snapshot.restored == "c" * 64


@pytest.mark.slow
async def test_what_cannot_be_saved_is_kept_and_given_back(kept: World, shelf: Shelf) -> None:
    """ReleaseFailed with attempts and next try; claiming again is the same instance, thawed."""
    first = await kept.operator.acquirer.acquire("alice", "web")
    assert first.claim is not None and first.claim.status is not None
    shelf.failing = "the volume is full"
    failed = await kept.operator.releaser.release("alice", "web")
    assert failed.phase == "ReleaseFailed" and "volume is full" in failed.detail
    assert failed.release is not None and failed.release.attempts == 3
    again = await kept.operator.acquirer.acquire("alice", "web")
    assert (again.phase, again.source, again.created) == ("Active", Source.EXISTING, False)
    assert again.claim is not None and again.claim.status is not None
    assert again.claim.status.instance_id == first.claim.status.instance_id
    assert "thaw 2" in shelf.story

    async def told() -> bool:
        reasons = {event.reason for event in (await kept.client.list(EVENTS)).items}
        return {"Releasing", "ReleaseFailed", "ClaimedAgain", "HookFailed"} <= reasons

    await kept.settles(told)


@pytest.mark.slow
async def test_a_bug_in_a_save_is_a_failed_save(
    kept: World, shelf: Shelf, logs: list[EventDict]
) -> None:
    """Tried no more often than any other, each time with its traceback in the log; then told."""
    await kept.operator.acquirer.acquire("alice", "web")
    shelf.bug = "a bug"
    failed = await kept.operator.releaser.release("alice", "web")
    assert failed.phase == "ReleaseFailed" and "ValueError: a bug" in failed.detail
    assert failed.release is not None and failed.release.attempts == 3
    assert shelf.story.count("save 1") == 3
    assert [entry["job"] for entry in logs if entry["event"] == "claim.job_failed"] == ["Save"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("step", ["save", "restore"])
async def test_a_job_with_a_bug_is_not_begun_again_before_its_time(
    tmp_path: Path, shelf: Shelf, step: str
) -> None:
    """While the clock stands still it is begun once, however often the claim is looked at."""
    clock = FakeClock()
    async with opened(tmp_path / "data") as world:
        world.operator = world.another_operator(snapshots=shelf, hooks=shelf, clock=clock)
        operator, key = world.operator, Key("boilerhouse", NAME)
        async with started(world.kubelet.manager, operator):
            for informer in operator.informers:
                await informer.wait_synced()
            await world.ready_workload(**KEPT)
            if step == "restore":
                shelf.stored["alice", "web"] = "c" * 64
            else:
                await operator.acquirer.acquire("alice", "web")
            shelf.bug = "a bug"
            if step == "restore":
                await operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=2))
            else:
                await operator.releaser.release("alice", "web", wait=timedelta(seconds=2))

            def begun() -> int:
                return sum(entry.startswith(step) for entry in shelf.story)

            assert begun() == 1
            for _ in range(20):
                await operator.claims.run_inline(key)
            assert begun() == 1
            clock.advance(timedelta(minutes=2))
            await operator.claims.run_inline(key)

            async def again() -> bool:
                return begun() == 2

            await world.settles(again)
            for _ in range(20):
                await operator.claims.run_inline(key)
            assert begun() == 2


@pytest.mark.slow
async def test_retry_and_force(kept: World, shelf: Shelf) -> None:
    """Another try when asked for; by force without one; refused where nothing failed."""
    releaser = kept.operator.releaser
    with pytest.raises(NotClaimed):
        await releaser.retry("alice", "web")
    await kept.operator.acquirer.acquire("alice", "web")
    with pytest.raises(NotFailed):
        await releaser.force("alice", "web")
    shelf.failing = "the volume is full"
    await releaser.release("alice", "web")
    again = await releaser.retry("alice", "web")
    assert again.phase == "ReleaseFailed"
    assert again.release is not None and again.release.attempts == 6
    found = await releaser.failed_claim("alice", "web")
    told = {stored: would_lose(found, stored) for stored in (None, "", "d" * 64)}
    assert all(one.startswith("everything that the tenant wrote since") for one in told.values())
    assert told[None].endswith("nobody can say if a version is stored")
    assert told[""].endswith("no version is stored")
    assert told["d" * 64].endswith(f"version {'d' * 64} is kept")
    forced = await releaser.force("alice", "web")
    assert (forced.phase, forced.saved) == ("Released", "")
    assert forced.detail.endswith("what was newer than the last snapshot is lost")
    assert await kept.pods(tenant="alice") == []


@pytest.mark.slow
async def test_a_retry_that_works_is_a_release(kept: World, shelf: Shelf) -> None:
    """The claim goes, as it was wished for in the beginning; a conflict is told."""
    await kept.operator.acquirer.acquire("alice", "web")
    shelf.failing = "the volume is full"
    await kept.operator.releaser.release("alice", "web")
    shelf.failing, shelf.side_version = "", True
    done = await kept.operator.releaser.retry("alice", "web")
    assert (done.phase, bool(done.saved)) == ("Released", True)
    assert done.side_version.startswith(f"version {done.saved} is kept beside the current one")
    await kept.gone(CLAIMS, NAME)
    await kept.settles(lambda: _is_told(kept, "SnapshotConflict", done.side_version))


async def _is_told(world: World, reason: str, words: str) -> bool:
    """Whether there is a Warning of that reason with these words."""
    events = (await world.client.list(EVENTS)).items
    return any(
        event.reason == reason and event.type == "Warning" and words in event.message
        for event in events
    )


async def test_a_full_disk_is_told_as_what_it_is(kept: World) -> None:
    """The Event has the words of the condition."""
    operator, key = kept.operator, Key("boilerhouse", NAME)
    got = await operator.acquirer.acquire("alice", "web")
    assert got.claim is not None and got.claim.status is not None
    pod = await operator.instances.look_live(got.claim.status.instance_id)
    assert pod is not None
    operator.memory.note_usage(key, pod, "disk")
    await operator.claims.run_inline(key)
    await kept.settles(lambda: _is_told(kept, "DiskFull", "its disk of 1 GiB is full"))
    # Who claims now is told at once.
    again = await operator.acquirer.acquire("alice", "web", wait=timedelta(seconds=30))
    assert (again.frozen, again.usable, again.source) == (True, False, "existing")


@pytest.mark.slow
async def test_a_pod_deleted_from_outside_is_saved(kept: World, shelf: Shelf) -> None:
    """The kubelet pretends to stop it only when it is deleted for good."""
    got = await kept.operator.acquirer.acquire("alice", "web")
    assert got.claim is not None and got.claim.status is not None
    kept.kubelet.stops = False
    await kept.client.delete(PODS, got.claim.status.instance_id)
    released = await kept.claimed(NAME, "Released")
    assert released.status is not None and released.status.snapshot is not None
    assert released.status.snapshot.saved == shelf.stored["alice", "web"]
    assert shelf.story == ["save 1"]
    assert "somebody else" in released.status.detail


def _is_settled(claim: Claim) -> bool:
    """Whether there is nothing left to be done about an Active claim."""
    told = () if claim.status is None else claim.status.conditions
    return any(one.type == "IdentityDelivered" and one.status == "True" for one in told)


async def test_activity_that_races_idleness_wins(tmp_path: Path) -> None:
    """A process that has not heard of it finds the instance idle, and its write comes too late."""
    async with opened(tmp_path / "data") as world:
        async with started(world.kubelet.manager, world.operator):
            await world.ready_workload(idle={"timeoutSeconds": 60})
            await world.until(CLAIMS, await world.claim("alice"), _is_settled)
        later = world.clock.now() + timedelta(hours=1)
        async with frozen(world.another_operator(clock=FakeClock(later))) as slow:
            used = {"metadata": {"annotations": {names.LAST_ACTIVITY: rfc3339(later)}}}
            await world.client.merge_patch(CLAIMS, NAME, used)
            await slow.claims.run_inline(Key("boilerhouse", NAME))
            assert (await status_of(world)).phase == "Active"
        async with frozen(world.another_operator(clock=FakeClock(later))) as known:
            await known.claims.run_until(Key("boilerhouse", NAME), lambda: False)
            assert (await status_of(world)).phase == "Active"
        much_later = FakeClock(later + timedelta(hours=1))
        async with frozen(world.another_operator(clock=much_later)) as known:
            await known.claims.run_until(Key("boilerhouse", NAME), lambda: False)
        status = await status_of(world)
        assert status.phase in ("Releasing", "Released") and "idle for" in status.detail
