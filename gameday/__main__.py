"""`make gameday`: every scenario against a live `up`, and what held.

    python -m gameday [--list] [--json] [NAME …]

At most ten minutes, in a data directory of its own, on loopback alone. The exit code is 0 if every
promise held. What this machine cannot try (no root, no cgroups) is said, and counts for neither.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gameday.connections
import gameday.disk
import gameday.endings
import gameday.output
import gameday.stalls
import gameday.told
import gameday.trees  # noqa: F401  each registers its scenarios
from gameday.scenario import SCENARIOS, Broke, NotTried, Scenario
from gameday.stage import Stage
from gameday.up import Up


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gameday", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", help="scenarios to run; all by default")
    parser.add_argument("--list", action="store_true", help="name them and their promises")
    parser.add_argument("--json", action="store_true", help="print results as JSON lines")
    line = parser.parse_args(arguments)
    known = {one.name: one for one in SCENARIOS}
    if unknown := [name for name in line.name if name not in known]:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [known[name] for name in line.name] or SCENARIOS
    if line.list:
        for one in wanted:
            print(f"{one.name}: {one.promise}")
        return 0
    return run(wanted, as_json=line.json)


def run(wanted: list[Scenario], *, as_json: bool) -> int:
    """Run scenarios one after another; one that breaks `up` does not end the day."""
    directory = Path(tempfile.mkdtemp(prefix="boilerhouse-gameday-"))
    began = time.monotonic()
    results = {"held": 0, "BROKE": 0, "not tried": 0}
    up = Up(directory)
    try:
        up.start()
        stage = Stage(up)
        for one in wanted:
            since = time.monotonic()
            result, seen = attempt(one, stage)
            results[result] += 1
            report(one, result, seen, time.monotonic() - since, as_json=as_json)
            if not up.runs:
                up.start()
        stage.close()
    finally:
        if up.runs:
            up.stop()
        if results["BROKE"]:
            print(f"the log of `up` is kept: {up.log}", file=sys.stderr)
            keep_only(directory, up.log)
        else:
            remove(directory)
    counted = ", ".join(f"{count} {name}" for name, count in results.items())
    if not as_json:
        machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
        print(f"{counted} in {time.monotonic() - began:.0f} s on {machine}")
    return 1 if results["BROKE"] else 0


def attempt(one: Scenario, stage: Stage) -> tuple[str, str]:
    """Run one scenario; whatever it raises is a result."""
    try:
        return "held", one.run(stage)
    except Broke as broke:
        return "BROKE", str(broke)
    except NotTried as why:
        return "not tried", str(why)
    except Exception as error:  # noqa: BLE001  an attack that fails by surprise is a result too
        alive = "" if stage.up.runs else "; `up` has ended: " + stage.up.tail(3)
        return "BROKE", f"{type(error).__name__}: {error}{alive}"


def report(one: Scenario, result: str, seen: str, seconds: float, *, as_json: bool) -> None:
    if as_json:
        found = {"name": one.name, "promise": one.promise, "result": result, "seen": seen}
        print(json.dumps({**found, "seconds": round(seconds, 1)}), flush=True)
    else:
        print(f"{result:9}  {one.name} ({seconds:.0f} s): {one.promise}\n{'':11}{seen}", flush=True)


def keep_only(directory: Path, log: Path) -> None:
    for path in directory.iterdir():
        if path != log:
            remove(path)


def remove(path: Path) -> None:
    """Remove what tenants filled; their trees are deeper than Python's own removal goes."""
    subprocess.run(["rm", "-rf", str(path)], check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
