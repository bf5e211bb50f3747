"""Power loss: whatever the store promised is still true on a disk that forgets unsynced writes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from boilerhouse.embedded.apiserver.storage.store import Store, StoreFailed
from tests.faults.ledger import Ledger
from tests.faults.powerloss.promises import lose_power, unfaithful
from tests.faults.powerloss.recorder import Recording, build, record
from tests.faults.powerloss.store_program import MISTAKES
from tests.faults.workload import HISTORY

PROGRAM = "tests.faults.powerloss.store_program"


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recorder"))


def run(
    recorder: Path,
    tmp_path: Path,
    seed: int,
    *mistake: str,
    steps: int = 25,
    kills: int = 0,
    fail_every: int = 0,
) -> Recording:
    root = tmp_path / "disk"
    root.mkdir()
    numbers = (str(number) for number in (seed, steps, kills))
    command = [sys.executable, "-m", PROGRAM, str(root / "data"), *numbers, *mistake]
    return record(recorder, root, tmp_path / "log", command, fail_every=fail_every)


async def broken(disk: Path, marks: list[str]) -> list[str]:
    """Open the store that is left and hold it against what the workload was told until then."""
    ledger = Ledger()
    for text in marks:
        ledger.hear(json.loads(text))
    try:
        store = await Store.open(disk / "data", history=HISTORY)
    except StoreFailed as error:
        return [f"does not open: {error}"]
    problems = await ledger.check(store)
    await store.close()
    return problems


@pytest.mark.parametrize(
    ("seed", "moments"),
    [
        pytest.param(1, 120),
        *(
            pytest.param(seed, 2000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])
            for seed in range(2, 6)
        ),
    ],
)
@pytest.mark.slow
async def test_what_was_acknowledged_or_seen_survives_a_power_loss_at_any_moment(
    recorder: Path, tmp_path: Path, seed: int, moments: int
) -> None:
    """From the birth of the store on, with checkpoints: promises hold after each simulated loss."""
    recording = run(recorder, tmp_path, seed, kills=2)
    assert unfaithful(recording, tmp_path / "disk") == []
    kinds = [entry.kind for entry in recording.records]
    assert kinds.count("S") > 50, "the run synced too rarely to be worth a test"
    assert await lose_power(recording, broken, tmp_path, random.Random(seed), moments) == []


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_store_that_syncs_or_commits_wrongly_is_found_out(
    recorder: Path, tmp_path: Path, mistake: str
) -> None:
    """Pinned mutants: each of these mistakes breaks a promise that this machinery reports."""
    recording = run(recorder, tmp_path, 1, mistake)
    assert await lose_power(recording, broken, tmp_path, random.Random(1), 60) != []


@pytest.mark.slow
@pytest.mark.parametrize("fail_every", [7, 10])
@pytest.mark.parametrize("kills", [0, 3])
async def test_failing_syncs_break_no_promise(
    recorder: Path, tmp_path: Path, fail_every: int, kills: int
) -> None:
    """On a disk whose fsync fails now and then, what was acknowledged survives a power loss too."""
    # A writer waits for its three writes at most before the next: so there are 50 syncs at least,
    # however many writers a busy machine puts into one commit.
    recording = run(recorder, tmp_path, 3, steps=150, kills=kills, fail_every=fail_every)
    kinds = [entry.kind for entry in recording.records]
    assert kinds.count("F") >= 50 // fail_every, "too few syncs failed for this to be a test"
    assert await lose_power(recording, broken, tmp_path, random.Random(3), 120) == []
