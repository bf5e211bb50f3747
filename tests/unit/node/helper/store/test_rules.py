"""Which save may replace which version, and which versions may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.node.helper.store import rules
from boilerhouse.node.helper.store.manifest import Manifest, Shelf, Stored
from boilerhouse.node.helper.wire import Kind


def version(
    seq: int,
    digest: str,
    *,
    pod: str = "",
    kind: Kind = "save",
    ancestors: tuple[str, ...] = (),
    exempt: bool = False,
) -> Stored:
    base = ancestors[0] if ancestors else ""
    manifest = Manifest(digest, 1, 1, 1, base, ancestors, "2026-01-01T00:00:00Z", pod, kind)
    return Stored(seq, manifest, exempt)


A = version(1, "a", pod="p1")
B = version(2, "b", pod="p2", ancestors=("a",))
C = version(3, "c", pod="p3", ancestors=("b", "a"))


@pytest.mark.parametrize(
    ("shelf", "base", "pod", "may"),
    [
        pytest.param(Shelf(), "", "p9", True, id="nothing is stored"),
        pytest.param(Shelf(), "a", "p9", True, id="what it started from was deleted"),
        pytest.param(Shelf((A,)), "", "p9", True, id="versions, but none is current"),
        pytest.param(Shelf((A, B), B), "b", "p9", True, id="current is the base"),
        pytest.param(Shelf((A, B), B), "a", "p2", True, id="current is the Pod's own"),
        pytest.param(Shelf((A, B, C), A), "c", "p9", True, id="current is an ancestor of the base"),
        pytest.param(Shelf((A, B), B), "a", "p9", False, id="the base is older than current"),
        pytest.param(Shelf((A, B), B), "", "p9", False, id="it started clean, and there is one"),
        pytest.param(Shelf((A, B), A), "x", "p9", False, id="the base is not known"),
        pytest.param(
            Shelf((A, version(2, "i")), version(2, "i")), "a", "", False, id="no Pod is nobody"
        ),
    ],
)
def test_what_may_replace_current(shelf: Shelf, base: str, pod: str, may: bool) -> None:
    """Only what loses nothing by it."""
    assert rules.may_replace(shelf, base, pod) is may


@pytest.mark.parametrize(
    ("shelf", "base", "pod", "found"),
    [
        (Shelf(), "", "p1", None),
        (Shelf((A, B), B), "b", "p9", B),
        (Shelf((A, B), B), "a", "p9", None),
        (Shelf((A, B), B), "a", "p1", A),
        (
            Shelf((B, version(3, "s", pod="p1", kind="side")), B),
            "a",
            "p1",
            version(3, "s", pod="p1", kind="side"),
        ),
        (Shelf((A,)), "", "", None),
    ],
)
def test_what_need_not_be_written_again(
    shelf: Shelf, base: str, pod: str, found: Stored | None
) -> None:
    """The Pod's own last save, or what it started from as long as that is current."""
    assert rules.known(shelf, base, pod) == found


def test_lineage() -> None:
    """A version remembers what it came from, nearest first, each once, and not without end."""
    shelf = Shelf((A, B, C), C)
    assert rules.lineage(shelf, "") == ()
    assert rules.lineage(shelf, "c") == ("c", "b", "a")
    assert rules.lineage(shelf, "gone") == ("gone",)
    again = version(4, "a", kind="restore", ancestors=("c", "b", "a"))
    assert rules.lineage(Shelf((A, B, C, again), again), "a") == ("a", "c", "b")
    old = version(1, "z", ancestors=tuple(f"d{number}" for number in range(rules.ANCESTORS)))
    assert len(rules.lineage(Shelf((old,), old), "z")) == rules.ANCESTORS


def test_pruning() -> None:
    """The last ones stay, counted apart for side versions; current and exempt ones stay anyway."""
    line = tuple(version(seq, f"l{seq}") for seq in (1, 3, 5, 7))
    sides = tuple(version(seq, f"s{seq}", kind="side") for seq in (2, 4, 6))
    everything = tuple(sorted(line + sides, key=lambda one: one.seq))

    def gone(shelf: Shelf, keep: int) -> list[int]:
        return [one.seq for one in rules.prunable(shelf, keep)]

    assert gone(Shelf(everything, line[3]), 2) == [1, 2, 3]
    assert gone(Shelf(everything, line[0]), 2) == [2, 3]
    assert gone(Shelf(everything, line[3]), 9) == []
    exempt = version(1, "l1", exempt=True)
    assert gone(Shelf((exempt, *everything[1:]), line[3]), 1) == [2, 3, 4, 5]
    assert gone(Shelf(), 3) == []
    copies = tuple(version(seq, digest) for seq, digest in enumerate("xabcbcbc"))
    assert gone(Shelf(copies, copies[7]), 3) == [0, 2, 3, 4]


KINDS: list[Kind] = ["save", "import", "restore", "side"]


@st.composite
def shelves(draw: st.DrawFn) -> Shelf:
    numbers = sorted(draw(st.sets(st.integers(1, 30), max_size=12)))
    found: list[Stored] = []
    for seq in numbers:
        earlier = st.sampled_from([one.digest for one in found] or [""])
        base = draw(earlier)
        made = Shelf(tuple(found))
        found.append(
            version(
                seq,
                f"d{draw(st.integers(0, 8))}",
                pod=draw(st.sampled_from(["", "p1", "p2"])),
                kind=draw(st.sampled_from(KINDS)),
                ancestors=rules.lineage(made, base),
                exempt=draw(st.booleans()),
            )
        )
    current = draw(st.sampled_from([None, *found]))
    return Shelf(tuple(found), current)


@given(shelves(), st.integers(1, 5))
def test_pruning_never_takes_what_is_needed(shelf: Shelf, keep: int) -> None:
    """Current, exempt and the newest of either sort stay, and pruned twice is pruned once."""
    gone = set(rules.prunable(shelf, keep))
    left = tuple(one for one in shelf.versions if one not in gone)
    assert shelf.current is None or shelf.current in left
    assert not any(one.exempt for one in gone)
    for side in (True, False):
        group = [one for one in shelf.versions if (one.manifest.kind == "side") is side]
        assert set(group[-keep:]) <= set(left)
        spare = [one for one in left if (one.manifest.kind == "side") is side and not one.exempt]
        assert len([one for one in spare if one != shelf.current]) < 2 * keep
        contents = dict.fromkeys(one.digest for one in reversed(group))
        assert set(list(contents)[:keep]) <= {one.digest for one in left}
    assert rules.prunable(Shelf(left, shelf.current), keep) == ()


@given(shelves(), st.sampled_from(["", "d0", "d1", "d2", "x"]), st.sampled_from(["", "p1", "p9"]))
def test_what_is_unknown_is_never_replaced(shelf: Shelf, base: str, pod: str) -> None:
    """A save replaces current only if it came from it, or wrote it, or is of its line."""
    current = shelf.current
    may = rules.may_replace(shelf, base, pod)
    if current is None:
        assert may
    elif may:
        own = pod != "" and current.manifest.pod == pod
        assert own or current.digest in rules.lineage(shelf, base)
    else:
        assert current.digest != base


@given(shelves(), st.sampled_from(["", "d0", "d1", "d2"]))
def test_lineage_has_no_repetition(shelf: Shelf, base: str) -> None:
    """Ancestors are bounded, each is there once, and the nearest is the base."""
    found = rules.lineage(shelf, base)
    assert len(set(found)) == len(found) <= rules.ANCESTORS
    assert found[:1] == ((base,) if base else ())
