"""ARCHITECTURE.md against the tree: every room is in it, and every path it names is there."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "boilerhouse"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()

# In the picture: a room at the beginning of its line, or rooms below the one before (`…/verbs`).
_ROOM = re.compile(r"^ *([a-z]+(?:/[a-z]+)*)  +\S", re.MULTILINE)
_BELOW = re.compile(r"^ *(…/[a-z]+(?:, …/[a-z]+)*)  +\S", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


def picture() -> str:
    """Return the block that lists the rooms."""
    (found,) = [
        block for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL) if "\ncore " in block
    ]
    return str(found)


def drawn() -> list[str]:
    """Return every room of the picture as a path below the package."""
    rooms: list[str] = []
    parent = ""
    for line in picture().splitlines():
        if room := _ROOM.match(line):
            parent = room[1]
            rooms.append(parent)
        elif below := _BELOW.match(line):
            rooms += [f"{parent}/{name.removeprefix('…/')}" for name in below[1].split(", ")]
        else:
            assert not line.strip(), f"neither a room nor an empty line: {line!r}"
    return rooms


def folders(depth: int) -> set[str]:
    """Return the packages of the source down to `depth`, as paths below the package."""
    found = (path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py"))
    return {folder.as_posix() for folder in found if 1 <= len(folder.parts) <= depth}


def test_every_room_is_drawn() -> None:
    """Every folder of the source is named down to two levels, and below them where any is."""
    rooms = drawn()
    assert len(rooms) == len(set(rooms))
    assert folders(2) - set(rooms) == set()
    opened = {Path(room).parent.as_posix() for room in rooms if room.count("/") == 2}
    wanted = {folder for folder in folders(3) if Path(folder).parent.as_posix() in opened}
    assert wanted - set(rooms) == set()


def test_every_path_that_is_named_exists() -> None:
    """A room of the picture, a path in code style, and whatever the table answers with is there."""
    answers = "\n".join(line.split("|")[2] for line in TEXT.splitlines() if line.startswith("| "))
    named = [name for name in _CODE.findall(TEXT) if "/" in name]
    named += [name for name in _CODE.findall(answers) if not name.startswith("make ")]
    assert len(named) > 40
    lost = [room for room in drawn() if room not in folders(3)]
    lost += [name for name in named if not any([*ROOT.glob(name), *PACKAGE.glob(name)])]
    assert lost == []


def test_the_shelves_are_those_that_are_checked() -> None:
    """The line of shelves is the layers that import-linter holds the source to."""
    checked = configparser.ConfigParser()
    checked.read(ROOT / ".importlinter")
    layers = (
        checked["importlinter:contract:layers"]["layers"].replace("boilerhouse.", "").split("\n")
    )
    shelves = [layer for layer in layers if layer not in ("", "main")]
    assert f"```\n{' ─► '.join(shelves)}\n```" in TEXT
    assert folders(1) == {room for room in drawn() if "/" not in room}
