"""Tenants that fill their disk: frozen with everything they have, never evicted, in both worlds.

job ─► the tenant's own program writes ─► DiskFull ─► exec cleans up | release | a larger diskGb
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import EVENTS
from tests.e2e.snapshots_fixture import Home, on_this_machine, soon

pytestmark = pytest.mark.timeout(600)

# Runs what it finds in /workspace/job as its own, and shows by its beat that it runs.
WORKS = {
    "cmd": "/bin/sh",
    "args": [
        "-c",
        "cd /workspace; while :; do"
        " if [ -e job ]; then mv job doing; sh doing; rm -f doing; fi;"
        " date +%s%N > beat.new; mv beat.new beat; sleep 0.1; done",
    ],
}
RESOURCES = {"vcpus": 1, "memoryMb": 256, "diskGb": 1}


def begin(home: Home, tenant: str, workload: str) -> str:
    """Give a tenant an instance that works off jobs, and something to lose."""
    home.workload(workload, entrypoint=WORKS, resources=RESOURCES)
    instance = home.claim(tenant, workload, "cold")
    home.sh(instance, "echo precious > /workspace/precious")
    return instance


def job(home: Home, instance: str, script: str) -> None:
    home.sh(instance, f"cd /workspace; cat > job.new <<'END'\n{script}\nEND\nmv job.new job")


def disk_full(home: Home, tenant: str) -> str | None:
    """Return the condition's status."""
    found = [one for one in home.held(tenant).get("conditions") or () if one["type"] == "DiskFull"]
    return found[0]["status"] if found else None


def until_frozen(home: Home, tenant: str, seconds: float = 120) -> dict[str, Any]:
    soon(f"{tenant} is frozen", lambda: disk_full(home, tenant) == "True", seconds)
    held = home.held(tenant)
    assert held["phase"] == "Active", held
    return held


def until_thawed(home: Home, tenant: str, instance: str) -> None:
    soon(f"{tenant} runs", lambda: disk_full(home, tenant) == "False")
    until_it_beats(home, instance)


def beat(home: Home, instance: str) -> str:
    return home.sh(instance, "cat /workspace/beat")


def until_it_beats(home: Home, instance: str) -> None:
    before = beat(home, instance)
    soon("the tenant's program runs", lambda: beat(home, instance) != before)


def events(home: Home, claim: str, reason: str) -> list[str]:
    async def asked(client: Client) -> list[str]:
        found = await client.list(EVENTS)
        return [
            event.message
            for event in found.items
            if event.involved_object.name == claim and event.reason == reason
        ]

    return home.kube(asked)


def in_time(what: str, seconds: float, does: Callable[[], Any]) -> Any:
    clock = SystemClock()
    began = clock.monotonic()
    done = does()
    took = clock.monotonic() - began
    assert took < seconds, f"{what} took {took:.1f} s"
    return done


def test_filled_beyond_the_limit_nothing_is_lost(home: Home) -> None:
    """Frozen, said so and why; commands run; released and claimed again it has every file."""
    instance = begin(home, "fay", "filled")
    job(home, instance, "dd if=/dev/zero of=/workspace/big bs=1M count=3072")
    held = until_frozen(home, "fay")
    for way_out in ("boilerhouse exec", "release", "diskGb"):
        assert way_out in held["detail"], held
    soon("an Event tells of it", lambda: events(home, held["name"], "DiskFull"))
    stopped = beat(home, instance)
    size = int(home.sh(instance, "stat -c %s /workspace/big"))
    assert size >= 1000 << 20

    # Who claims now is told at once, and not after the 30 s that one waits for readiness.
    again = in_time(
        "a claim of a frozen instance",
        15,
        lambda: home.ask("POST", "/tenants/fay/claim", {"workload": "filled"}),
    )
    assert (again.status_code, again.json()["instanceId"]) == (200, instance), again.text
    assert "frozen" in again.json()["detail"]
    assert beat(home, instance) == stopped
    assert home.ask("GET", "/tenants/fay/workloads/filled/proxy/").status_code in (409, 503)

    saved = home.released("fay", "filled")
    assert saved is not None and saved["current"]
    second = home.claim("fay", "filled", "cold+data")
    assert home.sh(second, "cat /workspace/precious") == "precious\n"
    assert int(home.sh(second, "stat -c %s /workspace/big")) >= size
    until_frozen(home, "fay")
    home.sh(second, "rm /workspace/big")
    until_thawed(home, "fay", second)
    assert home.held("fay").get("detail", "") == ""
    assert home.sh(second, "cat /workspace/precious") == "precious\n"
    home.released("fay", "filled")


def test_three_times_its_disk_is_saved_and_restored(home: Home) -> None:
    """Written while the workload had more disk; its size refuses neither, and it is frozen then."""
    home.workload("shrunk", entrypoint=WORKS, resources=RESOURCES | {"diskGb": 4})
    instance = home.claim("lea", "shrunk", "cold")
    count = 2355 if home.kind == "embedded" else 3072
    job(home, instance, f"dd if=/dev/zero of=big bs=1M count={count}; echo end >> big; touch done")
    soon("it is written", lambda: _size(home, instance, "done"), 180)
    until_it_beats(home, instance)
    assert disk_full(home, "lea") is None
    assert home.released("lea", "shrunk") is not None
    home.workload("shrunk", entrypoint=WORKS, resources=RESOURCES)
    second = home.claim("lea", "shrunk", "cold+data")
    until_frozen(home, "lea")
    told = home.sh(second, "cd /workspace; stat -c %s big; tail -c 4 big")
    assert told == f"{(count << 20) + 4}\nend\n"
    home.sh(second, "rm /workspace/big")
    until_thawed(home, "lea", second)
    home.released("lea", "shrunk")


def test_hard_links_count_once_and_a_larger_disk_thaws(home: Home) -> None:
    """300 MB under ten names is 300 MB; with 800 MB more it is frozen, and diskGb 2 has room."""
    instance = begin(home, "hal", "linked")
    job(
        home,
        instance,
        "dd if=/dev/zero of=f bs=1M count=300; for i in 1 2 3 4 5 6 7 8 9; do ln f l$i; done",
    )
    soon("the links are there", lambda: "l9" in home.sh(instance, "ls /workspace"))
    for _ in range(30):  # several counts, since the free space has moved
        until_it_beats(home, instance)
    assert disk_full(home, "hal") is None
    job(home, instance, "dd if=/dev/zero of=g bs=1M count=800")
    until_frozen(home, "hal")
    home.workload("linked", entrypoint=WORKS, resources=RESOURCES | {"diskGb": 2})
    until_thawed(home, "hal", instance)
    assert home.sh(instance, "cat /workspace/precious") == "precious\n"
    home.released("hal", "linked")


def test_too_many_files_freeze_as_well(home: Home) -> None:
    """65,536 inodes per GiB, as an ext4 of that size has; said in words of its own."""
    instance = begin(home, "ina", "crumbs")
    job(home, instance, "mkdir m; cd m; seq 1 66000 | xargs touch")
    held = until_frozen(home, "ina")
    assert "as many files" in held["detail"]
    home.sh(instance, "rm -rf /workspace/m")
    until_thawed(home, "ina", instance)
    home.released("ina", "crumbs")


def test_space_without_a_name_counts(home: Home) -> None:
    """Allocated and never written, or removed while open: it is gone from the disk all the same."""
    if home.kind != "embedded":
        pytest.skip("an agent of a cluster may not look into the tenant's processes")
    instance = begin(home, "una", "nameless")
    job(
        home,
        instance,
        "fallocate -l 600M a;"
        " (exec 9>u; rm u; dd if=/dev/zero bs=1M count=500 >&9; exec sleep 3600) &",
    )
    until_frozen(home, "una")
    assert home.sh(instance, "ls /workspace/u 2>&1 || true").strip() != "/workspace/u"
    home.sh(instance, "rm /workspace/a")
    until_thawed(home, "una", instance)
    home.released("una", "nameless")


def test_a_restart_of_everything_keeps_it_frozen(tmp_path: Path) -> None:
    """Also of a tenant that begins anew then: it comes up, and is frozen with all its files."""
    with on_this_machine(tmp_path) as home:
        instance = begin(home, "ray", "again")
        job(home, instance, "dd if=/dev/zero of=big bs=1M count=1100")
        until_frozen(home, "ray")
    with on_this_machine(tmp_path) as home:
        soon("the instance runs", lambda: _size(home, instance, "big"))
        assert home.sh(instance, "cat /workspace/precious") == "precious\n"
        claim = home.held("ray")["name"]
        soon("that it runs is said", lambda: events(home, claim, "OverLimit"))
        soon("it is frozen again", lambda: _stands_still(home, instance), 120)
        until_frozen(home, "ray")
        assert events(home, claim, "EnoughRoom") == [], "it never had"
        home.sh(instance, "rm /workspace/big")
        until_thawed(home, "ray", instance)
        home.released("ray", "again")


def _stands_still(home: Home, instance: str) -> bool:
    before = beat(home, instance)
    time.sleep(1.0)  # ten beats
    return beat(home, instance) == before


DEEP = """
import os
for _ in range(3000):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
with open("f", "wb") as file:
    for _ in range(1100):
        file.write(bytes(1 << 20))
"""


def test_what_lies_deep_counts(home: Home) -> None:
    """Below 3,000 levels and at a path of 150,000 bytes, where no path name reaches."""
    if home.kind != "embedded":
        pytest.skip("the same code as on one machine; the node's image has no Python")
    instance = begin(home, "dee", "deep")
    job(home, instance, f"mkdir deep; cd deep; python3 -c '{DEEP}'")
    until_frozen(home, "dee")
    home.sh(instance, "rm -rf /workspace/deep")
    until_thawed(home, "dee", instance)
    home.released("dee", "deep")


def test_commands_that_only_write_are_frozen_too(home: Home) -> None:
    """What a clean-up frees thaws; what a command adds to a full disk is bounded."""
    if home.kind != "embedded":
        pytest.skip("the same code as on one machine, which takes minutes on a node")
    instance = begin(home, "wim", "worse")
    job(home, instance, "dd if=/dev/zero of=big bs=1M count=1100")
    until_frozen(home, "wim")
    writes = (
        "while :; do dd if=/dev/zero bs=1M count=4 2>/dev/null >> /workspace/more; sleep 0.05; done"
    )
    answer = home.ask(
        "POST",
        f"/instances/{instance}/exec",
        {"command": ["sh", "-c", writes], "timeoutSeconds": 25},
    )
    assert answer.status_code != 200 or answer.json()["exitCode"] != 0
    grown = int(soon("commands run again", lambda: _size(home, instance, "more")))
    assert grown < 1400 << 20, "it would have written 80 MB a second"
    home.sh(instance, "rm /workspace/big /workspace/more")
    until_thawed(home, "wim", instance)
    home.released("wim", "worse")


def _size(home: Home, instance: str, name: str) -> str | None:
    answer = home.ask(
        "POST",
        f"/instances/{instance}/exec",
        {"command": ["stat", "-c", "%s", f"/workspace/{name}"]},
    )
    return answer.json()["stdout"] if answer.status_code == 200 else None
