"""Each verb of the snapshot store under the recorder, alone; whole, and cut off after each call.

python -m tests.faults.powerloss.commit_program DIRECTORY whole|each [CASE [MISTAKE]]

case ─► prepared ─► mark `begin` ─► the verb ─► mark `done`
                  dies after its n-th call ─► mark `cut` ─► opened again ─► mark `shown`

Each of them has a disk and a log of its own, DIRECTORY/<case>/<n>/disk and …/log; n is 0 for the
one that is not cut off. A mark tells what the store shows at that moment.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.mutants import hook

if __name__ == "__main__":
    hook.install()  # before what may be wrong is imported

from boilerhouse.node.helper.store.places import Place
from boilerhouse.platform.rpc.refusal import Refused
from tests.faults.powerloss.recorder import mark
from tests.faults.powerloss.snapshot_program import MISTAKES
from tests.unit.node.helper.store.store_fixture import ANNA, Shop, digest

BESIDE = Place("anna", "lab")
PLACES = (ANNA, BESIDE, Place("ben", "shop"))

# Some of several sectors, so that there is something to tear.
OLDEST, OLD, NOW, NEW, ASIDE = (name * 500 for name in (b"oldest", b"old", b"now", b"new", b"side"))

_CUT_OFF = 9
_CALLS = ("open", "write", "fsync", "mkdir", "rmdir", "link", "rename", "unlink")


def nothing(shop: Shop) -> None:
    """Prepare nothing."""


def three_saves(shop: Shop) -> None:
    shop.save(OLDEST, pod="1")
    shop.save(OLD, pod="2", base=digest(OLDEST))
    shop.save(NOW, pod="3", base=digest(OLD))


def with_sides(shop: Shop) -> None:
    shop.save(NOW, pod="1")
    shop.save(b"side one", pod="2")
    shop.save(b"side two", pod="3")


def with_others(shop: Shop) -> None:
    three_saves(shop)
    shop.save(OLD, pod="7", where=BESIDE)
    shop.save(OLD, pod="8", where=PLACES[2])


def by_hand(shop: Shop) -> None:
    """Somebody has put a file where current is, while no helper ran."""
    shop.close()
    (shop.directory / "anna").mkdir()
    (shop.directory / "anna" / "shop.tar.gz").write_bytes(NEW)
    shop.open()


def without_links(shop: Shop) -> None:
    """As after a copy that made two files of the two names of one."""
    three_saves(shop)
    shop.close()
    current = shop.directory / "anna" / "shop.tar.gz"
    current.unlink()
    current.write_bytes(NOW)
    shop.open()


def save(shop: Shop) -> None:
    shop.save(NEW, pod="9", base=digest(NOW), keep=3)


def save_and_prune(shop: Shop) -> None:
    shop.save(NEW, pod="9", base=digest(NOW), keep=2)


def save_aside(shop: Shop) -> None:
    shop.save(ASIDE, pod="9", base=digest(b"of a version that nobody has"), keep=3)


def save_aside_and_prune(shop: Shop) -> None:
    shop.save(ASIDE, pod="9", base=digest(b"of a version that nobody has"), keep=1)


def put(shop: Shop) -> None:
    shop.put(NEW, keep=2)


def promote(shop: Shop) -> None:
    shop.store.promote(ANNA, 1, 2)


def promote_current(shop: Shop) -> None:
    """As if it had become current since it was looked at."""
    with mock.patch.object(shop.store, "holds", return_value=None):
        shop.store.promote(ANNA, 3, 3)


def delete_one(shop: Shop) -> None:
    shop.store.delete(ANNA, 2)


def delete_all(shop: Shop) -> None:
    shop.store.delete(ANNA, None)


def exempt(shop: Shop) -> None:
    shop.store.exempt(ANNA, digest(OLD))


def adopt(shop: Shop) -> None:
    shop.store.shelf(ANNA)


class Case(NamedTuple):
    """`seen`: what was there may be told before the verb. `deletes`: what goes stays away."""

    prepare: Callable[[Shop], None]
    verb: Callable[[Shop], None]
    seen: bool = True
    deletes: bool = False


CASES = {
    "the first save": Case(nothing, save),
    "a save": Case(with_others, save),
    "a save that prunes": Case(three_saves, save_and_prune),
    "a side version": Case(three_saves, save_aside),
    "a side version that prunes": Case(with_sides, save_aside_and_prune),
    "an import that prunes": Case(three_saves, put),
    "an old version made current": Case(three_saves, promote),
    "current made current": Case(three_saves, promote_current),
    "one version deleted": Case(three_saves, delete_one, deletes=True),
    "all versions deleted": Case(three_saves, delete_all, deletes=True),
    "all versions of one workload deleted": Case(with_others, delete_all, deletes=True),
    "a version kept for ever": Case(three_saves, exempt),
    "a file put there by hand": Case(by_hand, adopt, seen=False),
    "a file that lost its version": Case(without_links, adopt, seen=False),
}


def shown(shop: Shop) -> dict[str, Any]:
    """Tell all that the store shows, by place."""
    told = {}
    for where in PLACES:
        shelf = shop.store.shelf(where)
        told["/".join(where)] = {
            "current": "" if shelf.current is None else shelf.current.stem,
            "versions": {
                one.stem: {**asdict(one.manifest), "exempt": one.exempt} for one in shelf.versions
            },
        }
    # As it is read again: lists, not tuples.
    parsed: dict[str, Any] = json.loads(json.dumps(told))
    return parsed


def again(shop: Shop, verb: Callable[[Shop], None]) -> None:
    """Do it as somebody does who does not know that it is done."""
    with suppress(Refused):
        verb(shop)


def _say(event: str, told: object = None) -> None:
    mark(json.dumps({"event": event, "shown": told}))


def _die_after(calls: int) -> None:
    """End the process right after so many calls that change the volume; 0: never."""
    done = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            result = real(*args, **kwargs)
            if real is not opening or args[1] & os.O_CREAT:
                done += 1
            if done == calls:
                os._exit(_CUT_OFF)  # nothing is tidied up
            return result

        return call

    opening = os.open
    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))


def _live(directory: Path, case: Case, calls: int) -> bool:
    """Play a case on a new disk; return whether it was cut off."""
    shop = Shop(directory / "disk" / "snapshots")
    shop.open()
    case.prepare(shop)
    _say("begin", shown(shop) if case.seen else None)

    def verb() -> int:
        if calls:
            _die_after(calls)
        case.verb(shop)
        if not calls:
            _say("done", shown(shop))
        return 0

    cut_off = _apart(verb) == _CUT_OFF
    if cut_off:
        _say("cut")
        shop.again()
        _say("shown", shown(shop))
    return cut_off


def _apart(work: Callable[[], int]) -> int:
    """Run something in a process of its own; return what it ended with."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        except BaseException:  # noqa: BLE001  the process ends here, and it alone knows why
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, _CUT_OFF), f"it ended with {code}"
    return code


def _played(directory: Path, case: Case, calls: int) -> bool:
    """Play a case in a process of its own: only so does it have a log of its own."""
    (directory / "disk").mkdir(parents=True)
    os.environ["POWERLOSS_ROOT"] = str(directory / "disk")
    os.environ["POWERLOSS_LOG"] = str(directory / "log")
    return _apart(lambda: _CUT_OFF if _live(directory, case, calls) else 0) == _CUT_OFF


def main(directory: str, extent: str, name: str = "", mistake: str = "") -> None:
    if mistake:
        MISTAKES[mistake]()
    for each in [name] if name else CASES:
        _played(Path(directory, each, "0"), CASES[each], 0)
        calls = 1
        while extent == "each" and _played(Path(directory, each, str(calls)), CASES[each], calls):
            calls += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
