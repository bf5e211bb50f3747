"""Which Events are new, which are counted with others, and which are too many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from boilerhouse.platform.kube.correlation import (
    BURST,
    COMBINED,
    REFILL,
    REMEMBERED,
    SIMILAR,
    WINDOW,
    About,
    Correlator,
    New,
    Repeated,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = About("Pod", "default", "web", "uid-1", "Warning", "BackOff")


def test_the_same_again_is_counted() -> None:
    """One Event, whose count rises; it keeps its name and the time of the first."""
    correlator = Correlator()
    assert correlator.decide(POD, "back-off", "web.1", NOW) == New("web.1", "back-off")
    later = NOW + timedelta(minutes=9)
    again = correlator.decide(POD, "back-off", "web.2", later)
    assert again == Repeated("web.1", "back-off", 2, NOW)
    # The window begins with the last one, not with the first.
    again = correlator.decide(POD, "back-off", "web.3", later + timedelta(minutes=9))
    assert again == Repeated("web.1", "back-off", 3, NOW)


def test_after_a_quiet_while_it_is_a_new_one() -> None:
    correlator = Correlator()
    correlator.decide(POD, "back-off", "web.1", NOW)
    later = NOW + WINDOW + timedelta(seconds=1)
    assert correlator.decide(POD, "back-off", "web.2", later) == New("web.2", "back-off")


def test_another_object_reason_or_type_is_another_event() -> None:
    correlator = Correlator()
    correlator.decide(POD, "words", "web.1", NOW)
    for other in (
        POD._replace(uid="uid-2"),
        POD._replace(reason="Failed"),
        POD._replace(type="Normal"),
        POD._replace(namespace="other"),
    ):
        assert correlator.decide(other, "words", "other", NOW) == New("other", "words")


def test_many_similar_ones_are_combined() -> None:
    """The tenth message for one reason and all further ones are one Event, with the newest."""
    correlator = Correlator()
    for number in range(SIMILAR - 1):
        decided = correlator.decide(POD, f"try {number}", f"web.{number}", NOW)
        assert decided == New(f"web.{number}", f"try {number}")
    first = correlator.decide(POD, "try 10", "combined", NOW)
    assert first == New("combined", f"{COMBINED}try 10")
    second = correlator.decide(POD, "try 11", "unused", NOW)
    assert second == Repeated("combined", f"{COMBINED}try 11", 2, NOW)
    # What was told before by itself still counts by itself.
    assert correlator.decide(POD, "try 0", "unused", NOW) == Repeated("web.0", "try 0", 2, NOW)
    # And after a quiet while nothing is similar any more.
    later = NOW + WINDOW + timedelta(seconds=1)
    assert correlator.decide(POD, "try 12", "fresh", later) == New("fresh", "try 12")


def test_one_object_cannot_flood() -> None:
    """After a burst it is one each five minutes; warnings and other objects are not affected."""
    correlator = Correlator()
    normal = POD._replace(type="Normal")
    sent = [correlator.decide(normal, "up", "web.1", NOW) for _ in range(BURST + 5)]
    assert sent[BURST:] == [None] * 5 and None not in sent[:BURST]
    assert correlator.decide(POD, "down", "web.2", NOW) == New("web.2", "down")
    other = normal._replace(uid="uid-2")
    assert correlator.decide(other, "up", "web.3", NOW) == New("web.3", "up")
    later = NOW + timedelta(seconds=REFILL)
    assert isinstance(correlator.decide(normal, "up", "web.4", later), Repeated)
    assert correlator.decide(normal, "up", "web.5", later) is None
    # A clock that is set back takes nothing away.
    assert correlator.decide(other, "up", "web.6", NOW - WINDOW) is not None


def test_what_is_remembered_is_bounded() -> None:
    """However many objects there were, the oldest are forgotten, and begin anew."""
    correlator = Correlator()
    for number in range(REMEMBERED + 10):
        correlator.decide(POD._replace(uid=str(number)), "x", f"web.{number}", NOW)
    held = (correlator._counted, correlator._similar, correlator._allowances)
    assert all(len(values) == REMEMBERED for values in held)
    assert correlator.decide(POD._replace(uid="0"), "x", "anew", NOW) == New("anew", "x")
