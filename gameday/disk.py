"""Disks that tenants fill."""

from __future__ import annotations

from gameday.scenario import held, scenario
from gameday.stage import Stage

MIB = 1 << 20


@scenario("a tenant that fills its disk is frozen, told the ways out, and loses no file")
def full_disk(stage: Stage) -> str:
    stage.workload("filler")
    instance = stage.instance("filler", "filler")
    stage.sh(instance, "echo precious > note")
    filling = "nohup head -c 2300000000 /dev/zero > dataset 2>/dev/null &"
    stage.sh(instance, filling)
    told = stage.until(lambda: condition(stage, "True"), "the claim says DiskFull", seconds=90)
    held(stage.status("filler", "filler")["phase"] == "Active", "the claim is not Active any more")
    for way in ("exec", "release", "diskGb"):
        held(way in told["message"], f"the message names no {way}: {told['message']}")
    # Emptied first: what the frozen program has open takes its room until it is closed.
    stage.sh(instance, ": > dataset; rm dataset")
    stage.until(lambda: condition(stage, "False"), "it thaws after the clean-up", seconds=60)
    stage.sh(instance, filling)
    stage.until(lambda: condition(stage, "True"), "it is frozen again", seconds=60)
    size = int(stage.sh(instance, "stat -c %s dataset"))
    stage.release("filler", "filler")
    again = stage.instance("filler", "filler")
    held(stage.sh(again, "cat note").strip() == "precious", "the note is lost")
    back = int(stage.sh(again, "stat -c %s dataset"))
    held(back == size, f"the dataset had {size} bytes, and has {back}")
    stage.rest.post(f"/instances/{again}/destroy")
    return f"frozen, cleaned up, frozen, saved and restored with {size // MIB} MiB"


def condition(stage: Stage, status: str) -> dict[str, str]:
    found = stage.condition("filler", "filler", "DiskFull")
    return found if found.get("status") == status else {}


@scenario("a file with ten names is counted once")
def hard_links(stage: Stage) -> str:
    stage.workload("linker")
    instance = stage.instance("linker", "linker")
    stage.sh(
        instance,
        "head -c 300000000 /dev/zero > a; for i in 1 2 3 4 5 6 7 8 9; do ln a l$i; done; sync",
    )
    stage.sh(instance, "sleep 8")  # several looks long
    found = stage.condition("linker", "linker", "DiskFull")
    held(found.get("status") != "True", f"frozen with 300 MB on disk: {found}")
    stage.rest.post(f"/instances/{instance}/destroy")
    return "300 MB under ten names: not frozen"


@scenario("files that are open and deleted count, and freeze like others")
def unlinked_file(stage: Stage) -> str:
    script = (
        "exec 3> hidden; rm hidden; while [ ! -e go ]; do sleep 0.2; done;"
        " fallocate -l 1500M /proc/self/fd/3 2>/dev/null || head -c 1500000000 /dev/zero >&3;"
        " exec sleep 100000"
    )
    stage.workload("hidden", script)
    instance = stage.instance("hidden", "hidden")
    stage.sh(instance, "touch go")
    stage.until(
        lambda: stage.condition("hidden", "hidden", "DiskFull").get("status") == "True",
        "an unlinked file of 1.5 GB freezes its tenant",
        seconds=90,
    )
    answer = stage.rest.post(f"/instances/{instance}/destroy")
    held(answer.status_code in (200, 202, 204), f"destroy: {answer.text}")
    return "an unlinked file of 1.5 GB was counted"
