"""`up` and what tenants may nest: no tree and no name keeps anything from working.

a tenant nests directories ─► release ─► its Pod's directory goes ─► `up` starts again ─► claim
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.kube.resources import EVENTS
from tests.e2e.snapshots_fixture import Home, on_this_machine, soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NEST = """\
/usr/bin/python3 -S -c '
import os
os.chdir("/workspace")
for _ in range({levels}):
    os.mkdir("{name}")
    os.chdir("{name}")
open("end", "w").write("precious")
'"""
LOOK = """\
/usr/bin/python3 -S -c '
import os
os.chdir("/workspace")
for _ in range({levels}):
    os.chdir("{name}")
print(os.listdir("."), open("end").read())
'"""
FOUND = "['end'] precious\n"


def pods(room: Path) -> list[str]:
    return [entry.name for entry in (room / "data/pods").iterdir()]


def again(home: Home, tenant: str, script: str) -> str:
    """Run a script in an instance that is started again."""
    held = home.in_phase(tenant, "Active")

    def told() -> str:
        path = f"/instances/{held['instanceId']}/exec"
        answer = home.ask("POST", path, {"command": ["sh", "-c", script]})
        return str(answer.json()["stdout"]) if answer.status_code == 200 else ""

    return soon(f"{tenant} runs again", told)


@pytest.mark.parametrize(("levels", "name"), [(1_500, "d"), (130, "n" * 200)], ids=["deep", "long"])
def test_a_nested_tree_is_saved_removed_and_restored(
    tmp_path: Path, levels: int, name: str
) -> None:
    """Its tenant has it back; nothing is left of the old instance; `up` starts as ever."""
    with on_this_machine(tmp_path) as home:
        home.workload("files")
        other = home.claim("bob", "files", "cold")
        home.sh(other, "echo here > /workspace/f")
        before = set(pods(tmp_path))
        nested = home.claim("alice", "files", "cold")
        home.sh(nested, NEST.format(levels=levels, name=name))
        assert home.released("alice", "files") is not None
        soon("its directory is gone", lambda: set(pods(tmp_path)) == before)
        assert home.ask("GET", "/health").json()["status"] == "ok"
    with on_this_machine(tmp_path) as home:
        assert again(home, "bob", "cat /workspace/f") == "here\n"
        nested = home.claim("alice", "files", "cold+data")
        assert home.sh(nested, LOOK.format(levels=levels, name=name)) == FOUND
        assert home.ask("POST", f"/instances/{nested}/destroy").status_code == 200
        home.in_phase("alice", "Released")
        soon("its directory is gone", lambda: len(pods(tmp_path)) == len(before))


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[Path]:
    """Something in the directory of a Pod that is gone, which not even root may remove."""
    file = tmp_path / "data/pods/gone/volumes/v/kept"
    yield file
    subprocess.run(["chattr", "-i", file], check=False)


def test_what_cannot_be_removed_is_told_and_everything_else_starts(
    tmp_path: Path, stubborn: Path
) -> None:
    """In health and as an Event on the Node; an identity without a Pod is freed."""
    with on_this_machine(tmp_path) as home:
        home.workload("files")
        home.sh(home.claim("bob", "files", "cold"), "echo here > /workspace/f")
        before = set(pods(tmp_path))
    stubborn.parent.mkdir(parents=True)
    stubborn.write_text("x")
    (stubborn.parent / "other").write_text("x")
    if subprocess.run(["chattr", "+i", stubborn], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    identities = tmp_path / "data/sandboxes/identities"
    leaked = identities / str(max(int(p.name) for p in identities.iterdir() if p.is_symlink()) + 1)
    leaked.symlink_to("a-pod-that-was-killed-at-birth")
    with on_this_machine(tmp_path) as home:
        assert again(home, "bob", "cat /workspace/f") == "here\n"
        [told] = soon("it is told", lambda: home.ask("GET", "/health").json().get("warnings"))
        assert told.startswith("what Pod gone left cannot be removed and is set aside")
        words = soon("it is an Event", lambda: _said(home, "LeftoverNotRemoved"))
        assert f"what Pod gone left in {tmp_path}/data/pods/gone is set aside" in words
        assert "'volumes/v/kept' cannot be removed: Operation not permitted" in words
        soon("the identity is free", lambda: not leaked.is_symlink())
        assert set(pods(tmp_path)) == before | {"gone"}
        assert [path.name for path in stubborn.parent.iterdir()] == ["kept"]
        subprocess.run(["chattr", "-i", stubborn], check=True)
        soon("it is gone", lambda: set(pods(tmp_path)) == before)
        assert home.ask("GET", "/health").json() == {"status": "ok"}


def _said(home: Home, reason: str) -> str:
    async def asked(client: Client) -> str:
        told = await client.list(EVENTS, namespace=ALL)
        return next((event.message for event in told.items if event.reason == reason), "")

    return home.kube(asked)


def test_an_upload_with_two_thousand_levels(tmp_path: Path) -> None:
    """Taken, restored, and gone again with its instance."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("workspace/" + "d/" * 2_000 + "end")
        member.size = len(b"precious")
        tar.addfile(member, io.BytesIO(b"precious"))
    with on_this_machine(tmp_path) as home:
        home.workload("files")
        path = "/tenants/alice/workloads/files/snapshots"
        put = home.http.put(f"/api/v1{path}", content=made.getvalue())
        assert put.status_code == 201, put.text
        before = set(pods(tmp_path))
        nested = home.claim("alice", "files", "cold+data")
        assert home.sh(nested, LOOK.format(levels=2_000, name="d")) == FOUND
        home.released("alice", "files")
        soon("its directory is gone", lambda: set(pods(tmp_path)) == before)


def test_too_deep_to_be_saved(tmp_path: Path) -> None:
    """The release fails with the path in a sentence; the instance stays, and can be given up."""
    with on_this_machine(tmp_path) as home:
        home.workload("files")
        before = set(pods(tmp_path))
        nested = home.claim("alice", "files", "cold")
        home.sh(nested, NEST.format(levels=25_001, name="d"))
        assert home.release("alice", "files").status_code == 409
        held = soon("it has failed", lambda: home.status(home.held("alice")["name"])["release"])
        assert "lies more than 25000 directories deep" in str(held), held
        assert len(str(held)) < 2_000
        assert home.sh(nested, LOOK.format(levels=25_001, name="d")) == FOUND
        assert home.ask("POST", f"/instances/{nested}/destroy").status_code == 200
        soon("its directory is gone", lambda: set(pods(tmp_path)) == before, 200)
