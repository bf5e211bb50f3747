"""The worker's confinement, tried from inside it: what would hold if its own care did not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a worker could try, were it taken over by an archive; each attempt's outcome is printed.
ATTEMPTS = """
import json, os, sys
from boilerhouse.platform.archive import confine
inside, outside, access = sys.argv[1:4]
root = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
if len(sys.argv) > 4:
    confine.become(int(sys.argv[4]), int(sys.argv[4]))
held = confine.landlock([root], getattr(confine, access))

def tried(attempt, *arguments, **keywords):
    try:
        attempt(*arguments, **keywords)
    except OSError as error:
        return type(error).__name__ if error.errno != 18 else "CrossDevice"
    return "done"

print(json.dumps({
    "held": held,
    "read outside": tried(os.open, outside + "/secret", os.O_RDONLY),
    "write outside": tried(os.open, outside + "/secret", os.O_WRONLY),
    "make outside": tried(os.mkdir, outside + "/new"),
    "remove outside": tried(os.unlink, outside + "/secret"),
    "move out": tried(os.rename, inside + "/file", outside + "/got"),
    "link in": tried(os.link, outside + "/secret", inside + "/got"),
    "through a link": tried(os.open, "to/secret", os.O_RDONLY, dir_fd=root),
    "chmod outside": tried(os.chmod, outside + "/secret", 0o777),
    "device": tried(os.mknod, inside + "/device", 0o20666, os.makedev(1, 3)),
    "read inside": tried(os.open, inside + "/file", os.O_RDONLY),
    "write inside": tried(os.open, inside + "/new", os.O_WRONLY | os.O_CREAT),
    "link inside": tried(os.link, inside + "/file", inside + "/sub/linked"),
}))
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (inside / "file").write_text("x")
    (inside / "to").symlink_to(outside)
    (outside / "secret").write_text("secret")
    return inside, outside


def attempt(*arguments: object) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, object] = json.loads(done.stdout)
    if not outcomes.pop("held"):
        pytest.skip("this kernel has no Landlock")
    return outcomes


def test_a_restore_cannot_leave_the_overlay(places: tuple[Path, Path]) -> None:
    """Nothing outside can be read, written, made, moved or linked, by any name."""
    outcomes = attempt(*places, "WRITE")
    outcomes.pop("chmod outside")  # Landlock does not know it: the next test does
    assert outcomes == {
        "read outside": "PermissionError",
        "write outside": "PermissionError",
        "make outside": "PermissionError",
        "remove outside": "PermissionError",
        "move out": "PermissionError",
        "link in": "CrossDevice",
        "through a link": "PermissionError",
        "device": "PermissionError",
        "read inside": "done",
        "write inside": "done",
        "link inside": "done",
    }


def test_as_the_tenants_user_not_even_modes(places: tuple[Path, Path]) -> None:
    """Root restores as the tenant's user, to whom the machine's files are somebody else's."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    inside, outside = places
    for path in (inside, *inside.rglob("*")):
        os.chown(path, 4321, 4321, follow_symlinks=False)
    for path in (outside, *inside.parents[:4]):
        path.chmod(path.stat().st_mode | 0o055)
    outcomes = attempt(inside, outside, "WRITE", 4321)
    assert outcomes["chmod outside"] == "PermissionError"
    assert outcomes["link inside"] == "done"


def test_a_save_can_only_read(places: tuple[Path, Path]) -> None:
    """Not even the overlay can be written while it is saved."""
    outcomes = attempt(*places, "READ")
    assert {name for name, outcome in outcomes.items() if outcome == "done"} <= {
        "read inside",
        "chmod outside",
    }
    assert outcomes["read inside"] == "done"
