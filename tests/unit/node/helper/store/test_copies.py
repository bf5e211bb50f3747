"""The same content more than once: what is not stored again, and what copies do not push out."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.node.helper.store.store_fixture import ANNA, Shop, digest
from tests.unit.node.helper.store.test_store import ONE, THREE, TWO, refused


@pytest.mark.parametrize("seq", [1, 3])
def test_what_is_current_is_not_made_current_again(shop: Shop, seq: int) -> None:
    """Neither by its number, nor by that of another version of the same bytes, nor by a put."""
    shop.put(ONE)
    shop.put(TWO)
    shop.put(ONE)
    before = shop.files()
    for _ in range(4):
        version, new = shop.store.promote(ANNA, seq, 3)
        assert (version.seq, version.current, new) == (3, True, False)
        version, new = shop.put(ONE, expect=digest(ONE))
        assert (version.seq, version.current, new) == (3, True, False)
    refused("changed", lambda: shop.put(ONE, expect=digest(TWO)))
    assert shop.files() == before
    shop.store.promote(ANNA, 2, 3)
    assert shop.current() == TWO


@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_current_is_mended_by_its_own_bytes(shop: Shop, cut: bool) -> None:
    """Put again, or from an intact copy, they become a new version; from itself they cannot."""
    shop.put(ONE)
    shop.put(TWO)
    shop.put(ONE)

    def damage(seq: int) -> None:
        file = shop.directory / ".v/anna/shop" / f"{seq}-{digest(ONE)}.tar.gz"
        file.write_bytes(ONE[:-1] if cut else ONE.swapcase())

    damage(3)
    refused("corrupt-version", lambda: shop.store.promote(ANNA, 3, 9))
    version, new = shop.store.promote(ANNA, 1, 9)
    assert (version.seq, version.current, new) == (4, True, True)
    assert shop.current() == ONE
    damage(4)
    version, new = shop.put(ONE, keep=9)
    assert (version.seq, version.current, new) == (5, True, True)
    assert shop.current() == ONE


def test_what_became_current_meanwhile_is_made_current_again(shop: Shop) -> None:
    """Two names of one file, when another's promotion came between the look and the lock."""
    shop.save(ONE)
    with mock.patch.object(shop.store, "holds", return_value=None):
        again, new = shop.store.promote(ANNA, 1, 3)
    assert (again.seq, again.current, new) == (2, True, True)
    assert not list((shop.directory / ".tmp").iterdir())


def test_copies_push_nothing_out(shop: Shop) -> None:
    """Going to and fro between two contents leaves the third where it is."""
    for content in (ONE, TWO, THREE):
        shop.put(content, keep=3)
    for _ in range(6):
        seqs = {one.digest: one.seq for one in shop.store.shelf(ANNA).versions}
        shop.store.promote(ANNA, seqs[digest(TWO)], 3)
        shop.put(THREE, keep=3)
    assert {one.digest for one in shop.store.shelf(ANNA).versions} == {
        digest(content) for content in (ONE, TWO, THREE)
    }
    assert shop.content(1) == ONE


def test_a_pod_that_goes_back_to_what_it_saved_before(shop: Shop) -> None:
    """It is the newest then: what lay between goes before it."""
    for content in (ONE, TWO, ONE, THREE):
        assert shop.save(content, keep=2).current
    assert [one.digest for one in shop.store.shelf(ANNA).versions] == [digest(ONE), digest(THREE)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["save", "aside", "put", "promote"]), st.integers(0, 3)),
    max_size=12,
)


@pytest.mark.slow
@given(STEPS, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_the_newest_contents_are_all_there(steps: list[tuple[str, int]], keep: int) -> None:
    """Whatever is saved, put and gone back to: `keep` different contents, each as it was."""
    with TemporaryDirectory() as scratch, mock.patch("os.fsync"):
        shop = Shop(Path(scratch))
        shop.open()
        try:
            line: list[str] = []  # contents, as they became current
            for verb, number in steps:
                content, versions = b"%d" % number, shop.store.shelf(ANNA).versions
                if verb == "save":
                    shop.save(content, keep=keep, base=line[-1] if line else "")
                elif verb == "aside":
                    shop.save(content, keep=keep, side_version=True, pod="pod-2")
                elif verb == "put":
                    shop.put(content, keep=keep)
                elif versions:
                    shop.store.promote(ANNA, versions[number % len(versions)].seq, keep)
                current = shop.store.shelf(ANNA).current
                if current is not None:
                    line.append(current.digest)
            newest = list(dict.fromkeys(reversed(line)))[:keep]
            for wanted in newest:
                shop.store.require_intact(ANNA, wanted)
        finally:
            shop.close()
