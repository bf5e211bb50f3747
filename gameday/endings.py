"""Releases, cut-off commands, signals: what ends, ends whole and in time."""

from __future__ import annotations

import signal
import subprocess
import time

from gameday.scenario import held, scenario
from gameday.stage import Stage

# vfork suspends the parent, in a sleep that no signal interrupts, until the child execs or ends.
VFORK = """
import ctypes, sys
libc = ctypes.CDLL(None)
if libc.vfork() == 0:
    libc.pause()
"""


@scenario("a tenant in an uninterruptible vfork is released, and delays no other release")
def vfork(stage: Stage) -> str:
    stage.workload("forker")
    stage.workload("quick")
    for number in range(4):
        instance = stage.instance(f"forker{number}", "forker")
        begin = f"nohup python3 -c '{VFORK}' >/dev/null 2>&1 &"
        stage.sh(instance, f"echo kept > note; {begin} sleep 0.5")
    quick = stage.instance("quick", "quick")
    stage.sh(quick, "echo kept > note")
    forker = {"workload": "forker"}
    releases = stage.codes(
        4, lambda number: stage.rest.post(f"/tenants/forker{number}/release", json=forker)
    )
    time.sleep(0.2)
    began = time.monotonic()
    stage.release("quick", "quick")
    waited = time.monotonic() - began
    codes = [future.result() for future in releases]
    held(set(codes) == {200}, f"releases answered {codes}")
    held(waited < 10, f"an innocent release took {waited:.1f} s beside them")
    return f"four released; the innocent one took {waited:.1f} s"


@scenario("a command that is cut off ends with everything it started")
def cut_off(stage: Stage) -> str:
    stage.workload("runner")
    instance = stage.instance("runner", "runner")
    stage.execute(instance, "/bin/sh", "-c", "setsid sleep 98765 & sleep 98765", seconds=1)
    stage.until(
        lambda: "98765" not in stage.sh(instance, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"),
        "what the command started is gone",
        seconds=15,
    )
    stage.rest.post(f"/instances/{instance}/destroy")
    return "a child in a session of its own ended too"


@scenario("Ctrl-C in the terminal is quiet, leaves no process, and everything is there again")
def ctrl_c(stage: Stage) -> str:
    stage.workload("kept")
    instance = stage.instance("kept", "kept")
    stage.sh(instance, "echo kept > note")
    stage.release("kept", "kept")
    instance = stage.instance("kept", "kept")
    size = stage.up.log.stat().st_size
    code = stage.up.stop(signal.SIGINT, group=True)
    printed = stage.up.log.read_bytes()[size:].decode(errors="replace")
    held("Traceback" not in printed, f"it printed a traceback: {printed[-600:]}")
    held(code in (0, 130), f"it ended with {code}")
    left = subprocess.run(
        ["pgrep", "-f", str(stage.up.data)], capture_output=True, text=True, check=False
    ).stdout.split()
    held(not left, f"processes are left: {left}")
    stage.up.start()
    instance = stage.instance("kept", "kept")
    held(stage.sh(instance, "cat note").strip() == "kept", "the note is lost")
    stage.rest.post(f"/instances/{instance}/destroy")
    return f"exit code {code}, no traceback, files back"


@scenario("SIGKILL loses nothing that was acknowledged")
def sigkill(stage: Stage) -> str:
    stage.workload("killed")
    instance = stage.instance("killed", "killed")
    stage.sh(instance, "echo kept > note; sync")
    stage.up.stop(signal.SIGKILL)
    stage.up.start()
    instance = stage.instance("killed", "killed")
    held(stage.sh(instance, "cat note").strip() == "kept", "the note is lost")
    stage.rest.post(f"/instances/{instance}/destroy")
    return "the instance came back with its file"


@scenario("two Boilerhouses on one machine share no address")
def two_at_once(stage: Stage) -> str:
    from gameday.up import Up

    directory = stage.up.directory / "second"
    directory.mkdir(exist_ok=True)
    second = Up(directory)
    second.start()
    try:
        other = Stage(second)
        hosts = set()
        for one in (stage, other):
            one.workload("web", "exec python3 -m http.server 8080", network=WEB)
            hosts.add(one.claim("web", "web")["endpoint"]["host"])
        held(len(hosts) == 2, f"both tenants are at {hosts}")
        other.close()
    finally:
        second.stop()
    return f"two tenants at {', '.join(sorted(hosts))}"


WEB = {"access": "none", "expose": [{"guest": 8080}]}
