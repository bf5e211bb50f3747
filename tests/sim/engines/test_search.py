"""Every world that an engine can come to: invariants hold in all, and each can come to rest.

The decisions are those of production. Bounds are small, since few edits suffice to reach every kind
of world; `make soak` has larger ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from boilerhouse.engines.engines import sweep
from tests.sim.engines.invariants import ALWAYS, UNTOUCHED, Violated
from tests.sim.engines.mutants import MUTANTS, SWEEP, Wrong
from tests.sim.engines.search import Search, births

pytestmark = pytest.mark.slow

TWELVE = {
    "TypeOK",
    "TerminalConsistency",
    "ServiceValid",
    "TerminalHasSTS",
    "ActiveHasSTS",
    "DrainingHasSTS",
    "ServiceKnownGen",
    "DrainingPhase",
    "TerminalNoDraining",
    "DrainingOlderThanCurrent",
    "GenOrder",
    "QuiescedPhaseMatchesSpec",
}


def test_the_twelve_invariants_of_the_original_are_checked() -> None:
    assert {*ALWAYS, *UNTOUCHED} >= TWELVE


def search(bounds: Mapping[str, Any], **options: Any) -> Search:
    found = Search(births(**bounds), **options)
    found.run()
    return found


def test_edits_at_any_time() -> None:
    """Two edits, aborts, deadlines, flapping instances and Pods, and a crash after every write."""
    assert len(search({"edits": 2}).worlds) > 20_000


def test_deletion_at_any_time_and_stale_caches() -> None:
    """A look may mix the world with the one before it, whichever that was."""
    found = search({"edits": 1, "spare": 1, "mortal": True}, lag=1)
    assert len(found.worlds) > 5_000


def test_objects_that_others_change_and_delete() -> None:
    """One object is tampered with at any time, around an edit at any time."""
    assert len(search({"edits": 1, "tampers": 1, "specs": (0,)}).worlds) > 20_000


@pytest.mark.soak
@pytest.mark.parametrize(
    ("bounds", "options"),
    [
        ({"edits": 2, "spare": 1}, {"lag": 1}),
        ({"edits": 1, "tampers": 1, "spare": 1}, {"lag": 1}),
        ({"edits": 2, "mortal": True}, {}),
        ({"edits": 1, "mortal": True}, {"every_order": True}),
        ({"edits": 0, "tampers": 2}, {}),
        ({"edits": 1, "spare": 1}, {"lag": 20}),
        ({"edits": 1, "spare": 1, "mortal": True}, {"lag": 4}),
    ],
    ids=str,
)
def test_larger_bounds(bounds: dict[str, Any], options: dict[str, Any]) -> None:
    assert len(search(bounds, **options).worlds) > 500


@pytest.mark.parametrize("name", MUTANTS)
def test_a_guard_that_is_left_out_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong change breaks the invariant that it is said to break."""
    wrong: Wrong = MUTANTS[name]
    module = wrong.made()
    options: dict[str, Any] = {"lag": wrong.lag, "every_order": wrong.every_order}
    if wrong.module == SWEEP:
        monkeypatch.setattr(sweep, "orphans", module.orphans)
    else:
        options["decide"] = module.decide
    with pytest.raises(Violated) as found:
        search(wrong.births, **options)
    assert found.value.name == wrong.breaks, str(found.value)


def test_the_engine_is_asked_for_before_the_service_is_pointed_elsewhere() -> None:
    """An old status must not move traffic: apply looks at the engine itself before it does."""
    with pytest.raises(Violated) as found:
        search({"edits": 1, "spare": 1}, lag=1, trusting=True)
    assert found.value.name in ("ServiceKnownGen", "SwitchesOnlyWhenSwitching")
