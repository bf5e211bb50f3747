"""Power loss: what the snapshot store acknowledged or showed is there afterwards, whole."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.node.helper.store.places import Place
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.store.volume import VolumeUnfit
from boilerhouse.platform.rpc.refusal import Refused
from tests.faults.powerloss.promises import lose_power, unfaithful
from tests.faults.powerloss.recorder import Recording, build, record
from tests.faults.powerloss.snapshot_program import KEEP, MISTAKES

PROGRAM = "tests.faults.powerloss.snapshot_program"


@dataclass
class Promised:
    """What is known of one place: the last word, and what was begun since."""

    current: str = ""
    versions: list[str] = field(default_factory=list)
    begun: str | None = None
    deletes: bool = False

    def hear(self, line: dict[str, object]) -> None:
        if line["event"] == "begin":
            self.begun, self.deletes = str(line["digest"]), bool(line.get("deletes"))
        else:
            self.current, self.begun, self.deletes = str(line["current"]), None, False
            versions = line["versions"]
            assert isinstance(versions, list)
            self.versions = [str(stem) for stem in versions]

    def broken(self, found: str, stems: list[str]) -> list[str]:
        """Say what does not hold of what is found."""
        allowed = {self.current} | ({self.begun} if self.begun is not None else set())
        if found not in allowed:
            return [f"current is {found or 'nothing'}, promised was one of {allowed}"]
        if self.deletes:
            return []
        # What has begun may have pruned, but only once it was stored, and never the newest.
        begun = any(stem.endswith(f"-{self.begun}") for stem in stems)
        safe = self.versions[-(KEEP - 1) :] if begun else self.versions
        return [f"version {stem} is gone" for stem in safe if stem not in stems]


async def broken(disk: Path, marks: list[str]) -> list[str]:
    """Open the store that is left and hold it against what was said until then."""
    promised: dict[Place, Promised] = {}
    for text in marks:
        line = json.loads(text)
        promised.setdefault(Place(*line["where"]), Promised()).hear(line)
    directory = disk / "snapshots"
    if not directory.exists():
        return ["the volume is gone"] if promised else []
    try:
        store = Store.open(directory, FakeClock())
    except (VolumeUnfit, OSError) as error:
        return [f"does not open: {error}"]
    try:
        return [
            f"{where.tenant}/{where.workload}: {problem}"
            for where, one in promised.items()
            for problem in _problems(store, directory, where, one)
        ]
    finally:
        store.close()


def _problems(store: Store, directory: Path, where: Place, promised: Promised) -> list[str]:
    try:
        shelf = store.shelf(where)
    except Refused as refused:
        return [f"cannot be read: {refused}"]
    found = "" if shelf.current is None else shelf.current.digest
    problems = promised.broken(found, [one.stem for one in shelf.versions])
    for one in shelf.versions:
        file = directory / ".v" / where.tenant / where.workload / f"{one.stem}.tar.gz"
        if hashlib.sha256(file.read_bytes()).hexdigest() != one.digest:
            problems.append(f"{one.stem} is torn")
        if one.manifest.pod == "" and one.manifest.kind not in ("import", "restore"):
            problems.append(f"the manifest of {one.stem} is lost")
        if one.manifest.created_at != "2026-01-01T00:00:00Z":
            problems.append(f"the manifest of {one.stem} is lost")
    if shelf.current is not None:
        file = directory / where.tenant / f"{where.workload}.tar.gz"
        if hashlib.sha256(file.read_bytes()).hexdigest() != found:
            problems.append("current is torn")
        if not shelf.current.manifest.entries:
            problems.append("current had to be adopted")
    return problems


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store that only looks at what is left need not wait for this machine's disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recorder"))


def run(recorder: Path, tmp_path: Path, seed: int, *mistake: str) -> Recording:
    root = tmp_path / "disk"
    root.mkdir()
    command = [sys.executable, "-m", PROGRAM, str(root / "snapshots"), str(seed), *mistake]
    return record(recorder, root, tmp_path / "log", command)


@pytest.mark.slow
@pytest.mark.stalls  # every state after a power loss is looked at in one turn of the loop
@pytest.mark.parametrize(
    ("seed", "moments"),
    [
        pytest.param(1, 5000),
        pytest.param(2, 5000),
        *(
            pytest.param(seed, 5000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])
            for seed in range(3, 13)
        ),
    ],
)
async def test_what_was_acknowledged_or_seen_survives_a_power_loss_at_any_step(
    recorder: Path, tmp_path: Path, seed: int, moments: int
) -> None:
    """Never a torn or missing current, never an acknowledged version lost."""
    recording = run(recorder, tmp_path, seed)
    assert unfaithful(recording, tmp_path / "disk") == []
    assert len(recording.records) < moments, "not every step was tried"
    assert await lose_power(recording, broken, tmp_path, random.Random(seed), moments) == []


@pytest.mark.slow
@pytest.mark.stalls  # every state after a power loss is looked at in one turn of the loop
@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_store_that_syncs_or_commits_wrongly_is_found_out(
    recorder: Path, tmp_path: Path, mistake: str
) -> None:
    """Pinned mutants: each of these mistakes breaks a promise that this machinery reports."""
    recording = run(recorder, tmp_path, 1, mistake)
    assert await lose_power(recording, broken, tmp_path, random.Random(1), 250) != []
