"""Power loss at every step of every verb of the snapshot store, in every way it can go.

a verb, recorded ──► each moment of it ──► everything a crash may leave ──► opened ──► promises

`test_snapshots_powerloss` lives long lives and takes chances; here is no rng. A verb is alone,
every recorded operation is a moment, and at each moment every combination is tried of what may have
reached the disk by then, in whatever order.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from boilerhouse.node.helper.store.volume import VolumeUnfit
from boilerhouse.platform.rpc.refusal import Refused
from tests.faults.powerloss.commit_program import CASES, PLACES, Case, again, shown
from tests.faults.powerloss.disk import Disk, Image
from tests.faults.powerloss.outcomes import fingerprint, outcomes
from tests.faults.powerloss.recorder import Recording, build, record_many
from tests.faults.powerloss.snapshot_program import MISTAKES
from tests.unit.node.helper.store.store_fixture import Shop

PROGRAM = "tests.faults.powerloss.commit_program"

# Cut off after each of their calls in `make test`; the others in `make soak`.
CUT_OFF = ("a save that prunes", "current made current", "all versions deleted")

Shown = dict[str, Any]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store that only looks at what is left need not wait for this machine's disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


class Promise(NamedTuple):
    """What holds at a moment: the store is as it was before, or as it is after.

    What is not in `after` may be gone, but only once all that is new is there. What `may_return`
    was pruned: nobody was promised that it is gone.
    """

    before: Shown
    after: Shown
    may_return: Shown

    def broken(self, found: Shown) -> list[str]:
        return [
            f"{place}: {problem}"
            for place in found
            for problem in _broken(
                self.before[place], self.after[place], self.may_return[place], found[place]
            )
        ]


def _broken(before: Shown, after: Shown, may_return: Shown, found: Shown) -> Iterator[str]:
    if found["current"] not in (before["current"], after["current"]):
        yield f"current is {found['current'] or 'nothing'}"
    known = may_return["versions"] | before["versions"] | after["versions"]
    for stem, manifest in found["versions"].items():
        told = (before["versions"].get(stem), after["versions"].get(stem), known.get(stem))
        if manifest not in told:
            yield f"{stem} is not what it was: {manifest}"
    missing = before["versions"].keys() - found["versions"].keys()
    if missing & after["versions"].keys():
        yield f"lost: {missing & after['versions'].keys()}"
    new = after["versions"].keys() - before["versions"].keys()
    done = found["current"] == after["current"] and new <= found["versions"].keys()
    if missing and not done:
        yield f"gone before what is new was safe: {missing}"


class Moment(NamedTuple):
    """What a crash may leave after so many operations, and what holds then."""

    number: int
    what: str
    image: Image
    promise: Promise


@dataclass
class Story:
    """One recording of a case. `after`: where its verb leads, if nothing comes between."""

    case: Case
    recording: Recording
    after: Shown
    cut_off: bool

    def moments(self, settled: bool, most: int | None) -> Iterator[Moment]:
        """Return every distinct thing that a crash may leave, from the beginning of the verb on.

        Of a verb that was cut off: from there on, for until then it is as the whole one. `settled`:
        what was there before the verb is on the disk by then, promised or not.
        """
        disk = Disk(self.recording.root_inode)
        promise: Promise | None = None
        begun = False
        tried: set[Hashable] = set()
        for number, record in enumerate(self.recording.records, 1):
            disk.apply(record)
            if record.kind == "M":
                told = json.loads(record.data)
                if told["event"] == "begin" and settled:
                    disk.settle()
                if told["event"] != "cut":
                    promise = self._promise(told["event"], told["shown"], promise, settled)
                    tried.clear()
                begun |= not self.cut_off or told["event"] != "begin"
            if promise is None or not begun:
                continue
            for image in outcomes(disk, most):
                mark = fingerprint(image)
                if mark not in tried:
                    tried.add(mark)
                    yield Moment(number, f"{record.kind} {record.path}", image, promise)

    def _promise(
        self, event: str, told: Shown | None, earlier: Promise | None, settled: bool
    ) -> Promise | None:
        nothing = {place: {"current": "", "versions": {}} for place in self.after}
        if told is None:  # a file of somebody else: ours once it was adopted
            return Promise(self.after, self.after, nothing) if settled else None
        if event == "begin":
            return Promise(told, self.after, nothing)
        # An acknowledged deletion is for ever; what was pruned may come back, and is pruned again.
        pruned = nothing if earlier is None or self.case.deletes else earlier.before
        return Promise(told, told, pruned if event == "done" else nothing)


Stories = dict[str, dict[int, Story]]


def left(directory: Path, promise: Promise, case: Case, after: Shown) -> list[str]:
    """Open what is left: say what does not hold, and what does not work from then on."""
    shop = Shop(directory / "snapshots")
    try:
        shop.open()
    except (VolumeUnfit, OSError) as error:
        return [f"does not open: {error}"]
    try:
        found = shown(shop)
        problems = [*promise.broken(found), *torn(shop, found)]
        if list((shop.directory / ".tmp").iterdir()):
            problems.append("leftovers")
        again(shop, case.verb)
        now = shown(shop)
        problems += torn(shop, now)
        for place, one in now.items():
            if _digest(one["current"]) != _digest(after[place]["current"]):
                problems.append(f"done again, {place} is {one['current'] or 'nothing'}")
    except Refused as refused:
        problems = [f"cannot be read: {refused}"]
    finally:
        shop.close()
    return problems


def torn(shop: Shop, found: Shown) -> Iterator[str]:
    for where in PLACES:
        told = found["/".join(where)]
        if told["current"] and _hash(shop.current(where) or b"") != _digest(told["current"]):
            yield f"current of {where} is torn"
        for stem in told["versions"]:
            if _hash(shop.content(int(stem.partition("-")[0]), where)) != _digest(stem):
                yield f"{stem} is torn"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(stem: str) -> str:
    return stem.partition("-")[2]


def losses(
    stories: dict[int, Story], scratch: Path, settled: bool, most: int | None
) -> Iterator[list[str]]:
    """Open everything that a crash in any of the stories may leave; return the problems of each."""
    for calls, story in sorted(stories.items()):
        for moment in story.moments(settled, most):
            directory = scratch / "crash"
            moment.image.write(directory)
            found = left(directory, moment.promise, story.case, story.after)
            yield [f"{calls}, {moment.number}, {moment.what}: {problem}" for problem in found]
            shutil.rmtree(directory)


def recorded(recorder: Path, root: Path, *how: str) -> Stories:
    """Record the cases; return the stories of each, by the number of calls it was cut off after."""
    recordings = record_many(recorder, root, [sys.executable, "-m", PROGRAM, str(root), *how])
    stories: Stories = {}
    for path, recording in recordings.items():
        name, _, calls = path.partition("/")
        marks = [one for one in recordings[f"{name}/0"].records if one.kind == "M"]
        after = json.loads(marks[-1].data)["shown"]
        stories.setdefault(name, {})[int(calls)] = Story(
            CASES[name], recording, after, cut_off=calls != "0"
        )
    return stories


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory in memory where there is one: thousands of volumes are made and removed."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="boilerhouse-test-", dir=where) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def whole(recorder: Path, tmp_path_factory: pytest.TempPathFactory) -> Stories:
    """All cases, each from beginning to end."""
    return recorded(recorder, tmp_path_factory.mktemp("whole"), "whole")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_power_lost_at_every_step(whole: Stories, scratch: Path, name: str) -> None:
    """The old state or the new one, whole; what was acknowledged stays; it can be done again."""
    tried = list(losses(whole[name], scratch, settled=True, most=None))
    assert [problem for each in tried for problem in each] == []
    assert len(tried) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "most",
    [pytest.param(1), pytest.param(2000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])],
)
@pytest.mark.parametrize("name", CASES)
def test_power_lost_when_nothing_settled(
    whole: Stories, scratch: Path, name: str, most: int
) -> None:
    """Nor does it matter that what went before is only as safe as it was made."""
    tried = losses(whole[name], scratch, settled=False, most=most)
    assert [problem for each in tried for problem in each] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settled", "most"),
    [
        *(pytest.param(name, True, 1) for name in CUT_OFF),
        *(
            pytest.param(name, settled, 2000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])
            for name in CASES
            for settled in (True, False)
        ),
    ],
)
def test_power_lost_after_a_helper_was_killed_at_every_step(
    recorder: Path, scratch: Path, name: str, settled: bool, most: int
) -> None:
    """What the next helper shows stays, at whatever call the one before it ended."""
    root = scratch / "recordings"
    root.mkdir()
    stories = recorded(recorder, root, "each", name)[name]
    del stories[0]
    tried = list(losses(stories, scratch, settled, most))
    assert [problem for each in tried for problem in each] == []
    print(f"{len(stories)} kills, {len(tried)} losses of power")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found_without_luck(recorder: Path, scratch: Path, mistake: str) -> None:
    """Each of these breaks a promise at some step of a save, or of the start after it."""
    root = scratch / "recordings"
    root.mkdir()
    stories = recorded(recorder, root, "each", "a save that prunes", mistake)["a save that prunes"]
    assert any(losses(stories, scratch, settled=False, most=1))
