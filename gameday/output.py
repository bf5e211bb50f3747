"""Output of commands, byte for byte."""

from __future__ import annotations

import subprocess
import sys

from gameday.scenario import held, scenario
from gameday.stage import Stage

ODD = b"x\xff\xfey\n\xe2\x80\xa8 \xc2\x85 \x00 no end"


@scenario("exec prints exactly the bytes that the command wrote")
def exact_bytes(stage: Stage) -> str:
    stage.workload("writer")
    instance = stage.instance("writer", "writer")
    octal = "".join(f"\\{byte:03o}" for byte in ODD)
    for flags in ((), ("-i",)):
        command = [sys.executable, "-m", "boilerhouse.main", "exec", *flags, instance, "--"]
        done = subprocess.run(
            [*command, "printf", octal],
            env={"BOILERHOUSE_URL": stage.up.url, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        held(done.returncode == 0, f"exec {flags}: {done.stderr.decode(errors='replace')[-300:]}")
        held(done.stdout == ODD, f"exec {flags} printed {done.stdout!r}")
    stage.rest.post(f"/instances/{instance}/destroy")
    return f"{len(ODD)} odd bytes, with and without -i"


@scenario("/dev/stdout and /dev/stderr can be opened")
def dev_stdout(stage: Stage) -> str:
    stage.workload("logger")
    instance = stage.instance("logger", "logger")
    seen = stage.sh(instance, "echo hi > /dev/stdout; echo ho > /dev/stderr")
    held(seen == "hi\n", f"printed {seen!r}")
    stage.rest.post(f"/instances/{instance}/destroy")
    return "written through both"
