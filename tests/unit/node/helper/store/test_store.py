"""The store: what is saved, replaced, kept beside, promoted, deleted, adopted."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.node.helper.store import places, store
from boilerhouse.node.helper.store.places import Place
from boilerhouse.platform.rpc.refusal import Refused
from tests.unit.node.helper.store.store_fixture import ANNA, Shop, digest

ONE, TWO, THREE = b"first", b"second", b"third"


def refused(code: str, call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.code == code
    return caught.value


def version_files(shop: Shop) -> dict[str, int]:
    directory = shop.directory / ".v" / "anna" / "shop"
    return {path.name: path.stat().st_ino for path in directory.iterdir()}


def test_the_first_save(shop: Shop) -> None:
    """It lies where people look for it, as another name of an immutable version; no leftovers."""
    saved = shop.save(ONE)
    name = f"1-{digest(ONE)}"
    assert (saved.digest, saved.seq, saved.size) == (digest(ONE), 1, len(ONE))
    assert (saved.current, saved.unchanged, saved.conflict) == (True, False, False)
    assert shop.current() == ONE
    assert shop.files() == {
        "anna/shop.tar.gz",
        f".v/anna/shop/{name}.tar.gz",
        f".v/anna/shop/{name}.json",
    }
    current = (shop.directory / "anna" / "shop.tar.gz").stat().st_ino
    assert version_files(shop)[f"{name}.tar.gz"] == current
    manifest = json.loads((shop.directory / ".v/anna/shop" / f"{name}.json").read_text())
    assert manifest == {
        "digest": digest(ONE),
        "size": len(ONE),
        "entries": 1,
        "content": len(ONE),
        "base": "",
        "ancestors": [],
        "createdAt": "2026-01-01T00:00:00Z",
        "pod": "pod-1",
        "kind": "save",
    }


def test_a_save_on_top(shop: Shop) -> None:
    """What came from current replaces it, and remembers what it came from."""
    shop.save(ONE)
    shop.save(TWO, base=digest(ONE), pod="pod-2")
    shop.save(THREE, base=digest(TWO), pod="pod-3")
    assert shop.current() == THREE
    newest = shop.store.shelf(ANNA).versions[-1].manifest
    assert newest.ancestors == (digest(TWO), digest(ONE))
    assert shop.versions() == {1: "save", 2: "save", 3: "save"}


def test_only_the_last_ones_are_kept(shop: Shop) -> None:
    """The oldest go when there are too many, with all their files."""
    for number in range(5):
        shop.save(b"%d" % number, base=digest(b"%d" % (number - 1)), keep=2)
    assert shop.versions() == {4: "save", 5: "save"}
    assert len(version_files(shop)) == 4
    assert shop.current() == b"4"


def test_a_conflict(shop: Shop) -> None:
    """What did not come from current is kept beside it, and current stays as it is."""
    shop.save(ONE)
    saved = shop.save(TWO, base="", pod="pod-2")
    assert (saved.current, saved.conflict, saved.unchanged) == (False, True, False)
    assert shop.current() == ONE
    assert shop.versions() == {1: "save", 2: "side"}
    assert shop.content(2) == TWO
    shop.again()
    assert shop.current() == ONE
    assert shop.versions() == {1: "save", 2: "side"}


def test_what_may_be_torn_replaces_nothing(shop: Shop) -> None:
    """Bytes that are not to be trusted are kept aside, also if they came from current."""
    shop.save(ONE)
    saved = shop.save(TWO, base=digest(ONE), side_version=True)
    assert (saved.current, saved.conflict) == (False, True)
    assert shop.current() == ONE
    assert shop.content(2) == TWO


def test_side_versions_outlive_many_saves(shop: Shop) -> None:
    """The only copy of what went wrong is not pushed out by what goes well."""
    shop.save(ONE)
    shop.save(TWO, pod="pod-2")
    for number in range(10):
        shop.save(b"%d" % number)
    assert shop.content(2) == TWO


def test_the_same_pod_again(shop: Shop) -> None:
    """A Pod replaces what it wrote itself, however often it is released and taken back."""
    shop.save(ONE, base="")
    assert shop.save(TWO, base="").current
    assert shop.current() == TWO


def test_a_volume_put_back_from_a_backup(shop: Shop) -> None:
    """Current older than where the instance started, in the same line: it is replaced."""
    shop.save(ONE)
    shop.save(TWO, base=digest(ONE), pod="pod-2")
    shop.store.promote(ANNA, 1, 3)
    assert shop.current() == ONE
    assert shop.save(THREE, base=digest(TWO), pod="pod-3").current


def test_the_same_bytes_again(shop: Shop) -> None:
    """Nothing is written if current holds exactly that."""
    shop.save(ONE)
    before = shop.files()
    saved = shop.save(ONE, base="", pod="pod-2")
    assert (saved.current, saved.unchanged, saved.conflict) == (True, True, False)
    assert shop.files() == before


def test_an_earlier_try_is_taken_up(shop: Shop) -> None:
    """A version that was stored but not committed, for the helper died, is committed as it is."""
    shop.save(ONE)
    shop.save(TWO, base=digest(ONE), pod="pod-2")
    current = shop.directory / "anna" / "shop.tar.gz"
    current.unlink()
    first = shop.directory / ".v/anna/shop" / f"1-{digest(ONE)}.tar.gz"
    current.hardlink_to(first)  # as it was before the rename
    shop.again()
    assert shop.current() == ONE
    saved = shop.save(TWO, base=digest(ONE), pod="pod-2")
    assert (saved.seq, saved.current) == (2, True)
    assert shop.versions() == {1: "save", 2: "save"}
    assert shop.current() == TWO


def test_imports(shop: Shop) -> None:
    """An import replaces whatever is current, or only what it expects."""
    first, _ = shop.put(ONE, expect="")
    assert (first.kind, first.current, first.path) == (
        "import",
        True,
        "/snapshots/anna/shop.tar.gz",
    )
    assert "by now" in str(refused("changed", lambda: shop.put(TWO, expect="")))
    assert refused("changed", lambda: shop.put(TWO, expect=digest(THREE))).status == 409
    second, _ = shop.put(TWO, expect=digest(ONE))
    assert (second.seq, second.base) == (2, digest(ONE))
    shop.put(THREE)
    assert shop.current() == THREE
    assert not shop.save(b"late", base=digest(ONE), pod="pod-9").current


def test_promotion(shop: Shop) -> None:
    """A side version becomes current as a new version of the same bytes; nothing goes."""
    shop.save(ONE)
    shop.save(TWO, pod="pod-2")
    promoted, new = shop.store.promote(ANNA, 2, 3)
    assert new and (promoted.seq, promoted.kind, promoted.digest) == (3, "restore", digest(TWO))
    assert (promoted.current, promoted.base) == (True, digest(ONE))
    assert shop.current() == TWO
    assert shop.versions() == {1: "save", 2: "side", 3: "restore"}
    shop.again()
    assert [one.seq for one in shop.store.shelf(ANNA).versions] == [1, 2, 3]
    now = shop.store.shelf(ANNA).current
    assert now is not None and now.seq == 3
    assert not list((shop.directory / ".tmp").iterdir())
    assert refused("no-such-version", lambda: shop.store.promote(ANNA, 99, 3)).status == 404


def test_damaged_bytes_are_not_promoted(shop: Shop) -> None:
    """What reads differently than it was stored does not become current."""
    shop.save(ONE)
    shop.save(TWO, pod="pod-2")
    (shop.directory / ".v/anna/shop" / f"2-{digest(TWO)}.tar.gz").write_bytes(b"secOnd")
    assert "version 2" in str(refused("corrupt-version", lambda: shop.store.promote(ANNA, 2, 3)))
    assert shop.current() == ONE


def test_deletion(shop: Shop) -> None:
    """One version, but not the current one; or everything, and then there is nothing."""
    shop.save(ONE)
    shop.save(TWO, pod="pod-2")
    assert refused("current-version", lambda: shop.store.delete(ANNA, 1)).status == 409
    shop.store.delete(ANNA, 2)
    assert shop.versions() == {1: "save"}
    assert refused("no-such-version", lambda: shop.store.delete(ANNA, 2)).status == 404
    shop.save(TWO, where=Place("anna", "other"))
    shop.store.delete(ANNA, None)
    assert shop.current() is None
    assert refused("no-snapshot", lambda: shop.store.open_version(ANNA, None)).status == 404
    assert refused("no-snapshot", lambda: shop.store.delete(ANNA, None)).status == 404
    assert shop.current(Place("anna", "other")) == TWO
    shop.store.delete(Place("anna", "other"), None)
    assert shop.files() == set()
    assert sorted(path.name for path in shop.directory.iterdir()) == [".lock", ".tmp", ".v"]
    assert not list((shop.directory / ".v").iterdir())
    assert shop.save(THREE).current


def test_exempt_versions_stay(shop: Shop) -> None:
    """A version of which something was left out at a restore is never pruned."""
    shop.save(ONE)
    shop.store.exempt(ANNA, digest(ONE))
    shop.store.exempt(ANNA, digest(ONE))
    shop.store.exempt(ANNA, digest(THREE))
    shop.again()
    for number in range(5):
        shop.save(b"%d" % number)
    assert list(shop.versions()) == [1, 4, 5, 6]
    shop.store.delete(ANNA, 1)
    assert len(version_files(shop)) == 6


def test_a_file_put_there_by_hand_is_adopted(shop: Shop) -> None:
    """A current file without a version becomes an imported one, and instances may start from it."""
    (shop.directory / "ben").mkdir()
    (shop.directory / "ben" / "shop.tar.gz").write_bytes(ONE)
    shop.again()
    ben = Place("ben", "shop")
    file, version = shop.store.open_version(ben, None)
    os.close(file)
    assert (version.digest, version.size, version.kind) == (digest(ONE), len(ONE), "import")
    assert shop.save(TWO, where=ben, base=digest(ONE)).current
    assert shop.versions(ben) == {1: "import", 2: "save"}


def test_a_volume_that_was_copied(shop: Shop, tmp_path: Path) -> None:
    """Copied without hard links, current is found by its bytes, and linked again."""
    shop.save(ONE)
    shop.save(TWO, base=digest(ONE))
    shop.close()
    shutil.copytree(shop.directory, tmp_path / "copy")
    copied = Shop(tmp_path / "copy")
    copied.open()
    now = copied.store.shelf(ANNA).current
    assert now is not None
    assert (now.seq, now.manifest.pod, now.manifest.kind) == (2, "pod-1", "save")
    inode = (copied.directory / "anna" / "shop.tar.gz").stat().st_ino
    assert version_files(copied)[f"2-{digest(TWO)}.tar.gz"] == inode
    assert not list((copied.directory / ".tmp").iterdir())
    copied.close()
    shop.open()


def test_what_a_crash_leaves(shop: Shop) -> None:
    """Half a version is removed when it is met; unfinished uploads when the store is opened."""
    shop.save(ONE)
    directory = shop.directory / ".v/anna/shop"
    (directory / f"7-{digest(TWO)}.json").write_text("{}")
    (directory / f"8-{digest(TWO)}.tar.gz").write_bytes(TWO)
    (directory / f"8-{digest(TWO)}.keep").touch()
    (directory / "README").touch()
    (shop.directory / ".tmp" / "upload").write_bytes(b"half")
    (shop.directory / ".tmp" / "gone").mkdir()
    (shop.directory / ".tmp" / "gone" / "archive").write_bytes(b"old")
    shop.again()
    assert shop.versions() == {1: "save"}
    assert set(version_files(shop)) == {
        f"1-{digest(ONE)}.tar.gz",
        f"1-{digest(ONE)}.json",
        "README",
    }
    assert not list((shop.directory / ".tmp").iterdir())
    assert shop.save(TWO).seq == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"kind": "other"}', b"\xff\xfe"])
def test_a_damaged_manifest(shop: Shop, damage: bytes) -> None:
    """The archive is what counts: without its manifest a version is still there."""
    shop.save(ONE)
    (shop.directory / ".v/anna/shop" / f"1-{digest(ONE)}.json").write_bytes(damage)
    shop.again()
    now = shop.store.shelf(ANNA).current
    assert now is not None
    assert (now.digest, now.manifest.size, now.manifest.kind) == (digest(ONE), len(ONE), "import")
    assert shop.save(TWO, base=digest(ONE), pod="pod-2").current


def test_current_without_any_manifest(shop: Shop) -> None:
    """The version that is current is never taken for a leftover."""
    shop.save(ONE)
    (shop.directory / ".v/anna/shop" / f"1-{digest(ONE)}.json").unlink()
    shop.again()
    assert shop.content() == ONE


@pytest.mark.parametrize(
    "tenant",
    ["a b", "-rf", "ünïcøde", "🦄", "a" * 128, "ä" * 100, "con", "$(id)", "x.tar.gz", "%2e"],
)
def test_every_legal_id_is_a_directory(shop: Shop, tenant: str) -> None:
    """The path holds the id as it stands."""
    where = places.place(tenant, "shop")
    shop.save(ONE, where=where)
    assert (shop.directory / tenant / "shop.tar.gz").read_bytes() == ONE
    shop.again()
    assert [item.tenant for item in shop.store.page("", "", "", False).items] == [tenant]


@pytest.mark.parametrize(
    ("tenant", "workload", "code"),
    [
        ("", "shop", "bad-tenant"),
        (".", "shop", "bad-tenant"),
        ("..", "shop", "bad-tenant"),
        (".v", "shop", "bad-tenant"),
        (".tmp", "shop", "bad-tenant"),
        ("../x", "shop", "bad-tenant"),
        ("a/b", "shop", "bad-tenant"),
        ("a\x00b", "shop", "bad-tenant"),
        ("a\\b", "shop", "bad-tenant"),
        ("e\u0301", "shop", "bad-tenant"),
        ("\udcff", "shop", "bad-tenant"),
        ("a" * 129, "shop", "bad-tenant"),
        ("a", "", "bad-workload"),
        ("a", "..", "bad-workload"),
        ("a", "a/b", "bad-workload"),
        ("a", "A", "bad-workload"),
        ("a", "a\n", "bad-workload"),
        ("a", "a" * 64, "bad-workload"),
    ],
)
def test_hostile_names(tenant: str, workload: str, code: str) -> None:
    """What is no id, or no name, never reaches the disk."""
    assert refused(code, lambda: places.place(tenant, workload)).status == 400


def test_links_are_not_followed(shop: Shop, tmp_path: Path) -> None:
    """A tenant's directory that is a link elsewhere is refused."""
    (tmp_path / "elsewhere").mkdir()
    (shop.directory / "eve").symlink_to(tmp_path / "elsewhere")
    shop.again()
    eve = Place("eve", "shop")
    assert refused("volume-failed", lambda: shop.save(ONE, where=eve)).status == 500
    assert not list((tmp_path / "elsewhere").iterdir())


def test_lists(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tenant and workload, in parts, current ones or all."""
    monkeypatch.setattr(store, "PAGE", 2)
    everything = [Place(tenant, work) for tenant in ("ada", "b", "é") for work in ("x", "y")]
    for where in everything:
        shop.save(ONE, where=where)
        shop.save(TWO, where=where)
    (shop.directory / "lost+found").mkdir(mode=0)

    def listed(tenant: str = "", workload: str = "", versions: bool = False) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = shop.store.page(tenant, workload, after, versions)
            found += [f"{one.tenant}/{one.workload}/{one.seq}" for one in page.items]
            after = page.more
            if not after:
                return found

    for _ in range(2):
        assert listed() == [f"{where.tenant}/{where.workload}/2" for where in everything]
        assert listed(workload="y") == ["ada/y/2", "b/y/2", "é/y/2"]
        assert listed("b", versions=True) == ["b/x/2", "b/x/1", "b/y/2", "b/y/1"]
        assert listed("nobody") == []
        shop.again()


def test_memory_is_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many shelves are remembered; the others are read again."""
    monkeypatch.setattr(store, "REMEMBERED", 3)
    everyone = [Place(f"t{number}", "shop") for number in range(10)]
    for where in everyone:
        shop.save(ONE, where=where)
    assert sum(shop.store.peek(where) is not None for where in everyone) == 3
    assert all(shop.content(where=where) == ONE for where in everyone)


def test_tenants_without_snapshots_cost_nothing(shop: Shop) -> None:
    """Who never saved anything is known not to have, without a look at the disk."""
    shelf = shop.store.peek(Place("new", "shop"))
    assert shelf is not None and shelf.current is None
    shop.save(ONE)
    shop.again()
    assert shop.store.peek(ANNA) is None
    shop.store.shelf(ANNA)
    assert shop.store.peek(ANNA) is not None


def test_the_order_of_a_commit(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are safe before they get a name, a version before it is current, all before the word.

    What order is needed, the tests with losses of power find out; here it is only pinned.
    """
    shop.save(ONE)
    done: list[str] = []

    def path(file: int) -> str:
        return str(Path(f"/proc/self/fd/{file}").readlink().relative_to(shop.directory))

    def watched(name: str, told: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> object:
            done.append(f"{name} {told(*args, **kwargs)}")
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    def kind(name: str) -> str:
        return name if name == "shop.tar.gz" else Path(name).suffix

    watched("fsync", lambda file: path(file) if not path(file).startswith(".tmp/") else "file")
    watched("rename", lambda _, onto, **__: kind(onto))
    watched("unlink", lambda name, **_: kind(name))
    shop.save(TWO, keep=1)
    done = [step for step in done if step != "unlink "]  # temporary names
    assert done == [
        "fsync file",
        "fsync file",
        "rename .json",
        "rename .gz",
        "fsync .v/anna/shop",
        "rename shop.tar.gz",
        "fsync anna",
        "unlink .gz",
        "unlink .json",
        "unlink .keep",
    ]


CALLS = ["open", "write", "fsync", "mkdir", "link", "rename"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_disk_that_is_full(
    shop: Shop, call: str, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call the disk refuses: a clear error, current as it was, nothing left behind."""
    if not fresh:
        shop.save(ONE)
    before = shop.current()
    real = getattr(os, call)
    for number in range(20):
        left = number

        def full(*args: object, **kwargs: object) -> object:
            nonlocal left
            if call != "open" or (len(args) > 1 and int(str(args[1])) & os.O_CREAT):
                left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        monkeypatch.setattr(os, call, full)
        try:
            done = shop.save(TWO, base=digest(ONE)).current
        except Refused as error:
            done = False
            assert error.code in ("volume-full", "volume-failed")
            assert error.code == "volume-full" or call == "fsync"
        monkeypatch.setattr(os, call, real)
        shop.again()
        assert not list((shop.directory / ".tmp").iterdir())
        if done:
            break
        if call != "fsync":  # a name that could not be synced may be there
            assert shop.current() == before
    else:
        pytest.fail("it was never enough")
    assert shop.current() == TWO
    assert number > 0 or (call == "mkdir" and not fresh)


def test_a_directory_that_cannot_be_synced_ends_all_promises(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After lost names nothing is acknowledged any more, whatever later syncs say."""
    shop.save(ONE)
    real = os.fsync

    def broken(file: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112  a descriptor
            raise OSError(errno.EIO, "Input/output error")
        real(file)

    monkeypatch.setattr(os, "fsync", broken)
    assert refused("volume-failed", lambda: shop.save(TWO)).status == 503
    monkeypatch.setattr(os, "fsync", real)
    assert refused("volume-failed", lambda: shop.save(TWO)).status == 503
    assert refused("volume-failed", shop.store.check).status == 503


def test_what_reads_differently_is_not_stored(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that returns other bytes than were written is found out before the commit."""
    shop.save(ONE)
    incoming = shop.store.incoming()
    incoming.write(TWO)
    real = os.read

    def lying(file: int, size: int) -> bytes:
        return real(file, size).replace(b"second", b"secomd")

    monkeypatch.setattr(os, "read", lying)
    assert refused("verify-failed", incoming.settle).status == 500
    incoming.discard()
    assert shop.current() == ONE


def test_what_a_clean_start_replaces_is_never_pruned(shop: Shop) -> None:
    """However many saves follow, of clean starts or not, and after a restart; `rm` takes it."""
    shop.save(ONE)
    saved = shop.save(TWO, base=digest(ONE), pod="pod-2", clean=True, keep=1)
    assert (saved.current, saved.conflict, shop.current()) == (True, False, TWO)
    for number in range(3, 8):
        base = digest(shop.content())
        shop.save(b"%d" % number, base=base, pod=f"pod-{number}", keep=1)
        shop.again()
    assert shop.content(1) == ONE
    assert set(shop.versions()) == {1, 7}
    shop.store.delete(ANNA, 1)
    assert set(shop.versions()) == {7}


def test_always_starting_clean_does_not_fill_the_volume(shop: Shop) -> None:
    """What clean starts leave is counted as any version; what was there before them stays."""
    shop.save(ONE)
    for number in range(2, 12):
        base = digest(shop.content())
        pod = f"pod-{number}"
        shop.save(b"%d" % number, base=base, pod=pod, clean=True, keep=2)
        shop.save(b"%d again" % number, base=base, pod=pod, clean=True, keep=2)
        shop.again()
    assert set(shop.versions()) == {1, 20, 21}
    for number in range(4):
        shop.store.promote(ANNA, 1, 2)
        shop.save(b"after %d" % number, base=digest(ONE), pod=f"x{number}", clean=True, keep=2)
    copies = [seq for seq in shop.versions() if shop.content(seq) == ONE]
    assert 1 in copies and len(copies) <= 3
