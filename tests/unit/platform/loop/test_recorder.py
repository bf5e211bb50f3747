"""The ring of passes: bounded, readable, replayable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from boilerhouse.platform.loop.recorder import Divergence, Pass, Recorder, replay

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Phase(StrEnum):
    PENDING = "Pending"
    ACTIVE = "Active"


@dataclass(frozen=True, slots=True)
class Seen:
    now: datetime
    phase: Phase
    pods: tuple[str, ...]
    idle_after: timedelta | None


@dataclass(frozen=True, slots=True)
class Bind:
    pod: str


class Delete(msgspec.Struct, frozen=True):
    pod: str


@dataclass(frozen=True, slots=True)
class Do:
    steps: tuple[Bind | Delete, ...]


def bind_first(seen: Seen) -> Do:
    return Do((Bind(seen.pods[0]),))


def delete_first(seen: Seen) -> Do:
    return Do((Delete(seen.pods[0]),))


def recorded(recorder: Recorder, count: int = 1) -> None:
    for n in range(count):
        seen = Seen(NOW, Phase.PENDING, (f"pod-{n}",), timedelta(minutes=5))
        recorder.record("claims", ("ns", "a"), Pass(NOW, seen, bind_first(seen), "done"))


def test_only_the_last_passes_are_kept() -> None:
    """The ring forgets the oldest pass of an object."""
    recorder = Recorder(depth=3)
    recorded(recorder, 5)
    pods = [entry.seen.pods for entry in recorder.passes("claims", ("ns", "a"))]  # type: ignore[attr-defined]  # Pass.seen is any domain's Seen
    assert pods == [("pod-2",), ("pod-3",), ("pod-4",)]


def test_the_object_longest_untouched_is_forgotten_first() -> None:
    """The number of objects is bounded too."""
    recorder = Recorder(objects=2)
    for key in ("a", "b", "a", "c"):
        recorder.record("claims", key, Pass(NOW, None, None, "done"))
    assert [bool(recorder.passes("claims", key)) for key in "abc"] == [True, False, True]


def test_a_bundle_replays_without_divergence_through_the_same_decide() -> None:
    """What was recorded can be decided again, offline, from JSON alone."""
    recorder = Recorder()
    recorded(recorder, 3)
    assert replay(recorder.bundle("claims", ("ns", "a")), Seen, bind_first) == (3, [])


def test_a_changed_decide_shows_as_a_divergence_even_with_the_same_fields() -> None:
    """Two verbs with equal fields are told apart by name."""
    recorder = Recorder()
    recorded(recorder)
    count, divergences = replay(recorder.bundle("claims", ("ns", "a")), Seen, delete_first)
    bind = {"verb": "Do", "steps": [{"verb": "Bind", "pod": "pod-0"}]}
    delete = {"verb": "Do", "steps": [{"verb": "Delete", "pod": "pod-0"}]}
    assert (count, divergences) == (1, [Divergence(0, bind, delete)])


def test_a_pass_that_failed_to_read_is_shown_but_not_replayed() -> None:
    """A failed read has an error to show and nothing to decide."""
    recorder = Recorder()
    recorder.record("claims", "a", Pass(NOW, None, None, "error: no route to host"))
    bundle = recorder.bundle("claims", "a")
    assert msgspec.json.decode(bundle)["passes"][0]["result"] == "error: no route to host"
    assert replay(bundle, Seen, bind_first) == (0, [])
