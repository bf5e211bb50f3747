"""`up` on a disk that one tenant fills: everybody else goes on, and all recovers by itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core.names import claim_name
from boilerhouse.platform.files.ballast import PIECES
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import EVENTS, NODES
from boilerhouse.tenancy.claims.objects import CLAIMS
from tests.e2e.snapshots_fixture import Home, on_this_machine, soon
from tests.faults.conftest import loop_disk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A gigabyte, without anything that only root may use."""
    with loop_disk(tmp_path, 1 << 30) as mounted:
        yield mounted


@pytest.fixture
def few_inodes(tmp_path: Path) -> Iterator[Path]:
    """A disk that has room for fewer files than a tenant can make in two seconds."""
    with loop_disk(tmp_path, 1 << 30, "-N", "20000") as mounted:
        yield mounted


def free(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def health(home: Home) -> Any:
    answer = home.ask("GET", "/health")
    return answer.json() if answer.status_code == 200 else {}


def condition(home: Home) -> tuple[str, str]:
    async def asked(client: Client) -> Any:
        return await client.get(NODES, "boilerhouse")

    [found] = [one for one in home.kube(asked).status.conditions if one.type == "DiskPressure"]
    return found.status, found.reason


def events(home: Home, reason: str) -> list[str]:
    async def asked(client: Client) -> Any:
        return await client.raw("GET", EVENTS.path("default"))

    return [one["message"] for one in home.kube(asked)["items"] if one["reason"] == reason]


def reserve(disk: Path) -> int:
    directory = disk / "data" / "reserve"
    return sum(path.lstat().st_blocks * 512 for path in directory.iterdir())


def whole(disk: Path) -> int:
    """Return what is kept back once nothing is missing from it."""
    directory = disk / "data" / "reserve"
    made = len(list(directory.iterdir())) if directory.exists() else 0
    return reserve(disk) if made == PIECES else 0


def test_a_filled_disk_stops_nobody_but_new_instances(disk: Path) -> None:
    """Space taken at once: others write on; release, delete and destroy work and make room."""
    with on_this_machine(disk) as home:
        home.until_helped()
        home.workload("box")
        names = ("filler", "neighbour", "saved", "deleted")
        filler, neighbour, saved, deleted = (home.claim(name, "box", "cold") for name in names)
        home.sh(saved, "echo precious > /workspace/note")
        kept = soon("the reserve is there", lambda: whole(disk))
        assert condition(home) == ("False", "KubeletHasNoDiskPressure")
        home.sh(filler, f"fallocate -l {free(disk)} /workspace/all || true; head -c 1G /dev/zero"
                        " > /workspace/rest || true")  # fmt: skip
        assert free(disk) < kept

        soon("the Node says so", lambda: condition(home) == ("True", "KubeletHasDiskPressure"))
        told = soon("health says so", lambda: health(home).get("warnings"))
        assert "nearly full" in told[0]
        soon("an Event says so", lambda: events(home, "NodeHasDiskPressure"))
        home.sh(neighbour, "head -c 100000 /dev/zero > /workspace/more; cat /workspace/more | wc")
        waiting = home.ask("POST", "/tenants/new/claim", {"workload": "box"}, params={"wait": 3})
        assert waiting.status_code == 202, waiting.text
        soon("the claim says why", lambda: "disk-pressure" in home.held("new").get("detail", ""))

        assert home.released("saved", "box") is not None
        home.delete_pod(deleted, grace=0)
        soon("the Pod is gone", lambda: home.pod(deleted) is None)
        home.kube(lambda client: client.delete(CLAIMS, claim_name("neighbour", "box")))
        destroyed = home.ask("POST", f"/instances/{filler}/destroy")
        assert destroyed.status_code == 200, destroyed.text

        soon("the pressure ends", lambda: condition(home)[0] == "False", 90)
        soon("the reserve is whole", lambda: reserve(disk) == kept)
        soon("it is well", lambda: health(home) == {"status": "ok"})
        home.in_phase("new", "Active")
        again = home.claim("saved", "box", "cold+data")
        assert home.sh(again, "cat /workspace/note") == "precious\n"


def test_a_disk_without_inodes_stops_nobody_but_new_instances(few_inodes: Path) -> None:
    """The reserve has inodes, too; a tenant that cleans up by a command ends the pressure."""
    with on_this_machine(few_inodes) as home:
        home.until_helped()
        home.workload("box")
        names = ("filler", "neighbour", "saved")
        filler, neighbour, saved = (home.claim(name, "box", "cold") for name in names)
        home.sh(saved, "echo precious > /workspace/note")
        kept = soon("the reserve is there", lambda: whole(few_inodes))
        script = (
            "import itertools, os\n"
            "os.mkdir('/workspace/all')\n"
            "try:\n"
            "    for n in itertools.count(): open(f'/workspace/all/{n}', 'w').close()\n"
            "except OSError as error: print(error.strerror)\n"
        )
        told = home.run(filler, "python3", "-c", script)
        assert told["stdout"] == "No space left on device\n", told
        soon("the Node says so", lambda: condition(home)[0] == "True")
        soon("a neighbour makes a file", lambda: made_a_file(home, neighbour))
        soon(
            "a tenant is saved", lambda: home.release("saved", "box").json()["phase"] == "Released"
        )
        home.sh(filler, "rm -r /workspace/all")
        soon("the pressure ends", lambda: condition(home)[0] == "False")
        soon("the reserve is whole", lambda: reserve(few_inodes) == kept)
        again = home.claim("saved", "box", "cold+data")
        assert home.sh(again, "cat /workspace/note") == "precious\n"


def made_a_file(home: Home, instance: str) -> bool:
    return bool(home.run(instance, "sh", "-c", "echo > /workspace/more")["exitCode"] == 0)


def test_a_killed_up_starts_again_on_a_full_disk(disk: Path) -> None:
    """It lives on what it had kept back; tenants can be claimed and destroyed."""
    with on_this_machine(disk, end=signal.SIGKILL) as home:
        home.until_helped()
        home.workload("box")
        home.claim("filler", "box", "cold")
        kept = soon("the reserve is there", lambda: whole(disk))
    filling = disk / "filling"
    with filling.open("wb") as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, free(disk))
    with filling.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert free(disk) == 0
    with on_this_machine(disk) as home:
        assert home.held("filler")["phase"] == "Active"
        assert condition(home)[0] == "True"
        waiting = home.ask("POST", "/tenants/new/claim", {"workload": "box"}, params={"wait": 1})
        assert waiting.status_code == 202, waiting.text
        instance = home.held("filler")["instanceId"]
        assert home.ask("POST", f"/instances/{instance}/destroy").status_code == 200
        filling.unlink()
        soon("the reserve is whole", lambda: reserve(disk) == kept)
        home.in_phase("new", "Active")


FILLS = """
trap 'exit 0' TERM
while ! [ -e /workspace/go ]; do sleep 0.1; done
while :; do head -c 1M /dev/zero >> /workspace/all; done
"""


def test_who_writes_on_is_frozen_and_others_are_not(disk: Path) -> None:
    """It fills the disk below its own limit, for ever: it is frozen, and thawed by cleaning up."""
    with on_this_machine(disk) as home:
        home.until_helped()
        home.workload("box")
        home.workload("fills", entrypoint={"cmd": "/bin/sh", "args": ["-c", FILLS]})
        filler = home.claim("filler", "fills", "cold")
        neighbour, saved = (home.claim(name, "box", "cold") for name in ("neighbour", "saved"))
        home.sh(saved, "echo precious > /workspace/note")
        kept = soon("the reserve is there", lambda: whole(disk))
        home.sh(filler, "echo > /workspace/go")
        soon("it is frozen", lambda: full(home, "filler") == "MachineDiskFull", 90)
        assert home.held("filler")["phase"] == "Active"
        assert "machine" in home.held("filler")["detail"]
        assert reserve(disk) > kept // 2, "it got more than it should of the reserve"
        home.sh(neighbour, "head -c 100000 /dev/zero > /workspace/more")
        assert home.released("saved", "box") is not None
        assert not full(home, "neighbour")
        before = home.sh(filler, "wc -c < /workspace/all")
        home.sh(neighbour, "sleep 3")
        assert home.sh(filler, "wc -c < /workspace/all") == before

        home.sh(filler, "rm /workspace/go; : > /workspace/all")  # its program has that one open
        soon("the pressure ends", lambda: condition(home)[0] == "False", 90)
        soon("the reserve is whole", lambda: reserve(disk) == kept)
        soon("it runs on", lambda: not full(home, "filler"))

        home.sh(filler, "echo > /workspace/go")
        soon("it is frozen again", lambda: full(home, "filler") == "MachineDiskFull", 90)
        assert home.ask("POST", f"/instances/{filler}/destroy").status_code == 200
        soon("the pressure ends", lambda: condition(home)[0] == "False", 90)
        soon("the reserve is whole", lambda: reserve(disk) == kept)


def full(home: Home, tenant: str) -> str:
    """Return why a tenant is frozen for a disk; empty if it is not."""
    found = home.held(tenant).get("conditions") or []
    full = [one for one in found if one["type"] == "DiskFull" and one["status"] == "True"]
    return str(full[0]["reason"]) if full else ""
