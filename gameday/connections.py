"""Connections and descriptors, and a caller that wants everything for itself."""

from __future__ import annotations

import contextlib
import socket

from gameday.scenario import held, scenario
from gameday.stage import Stage
from gameday.up import Up

IDLE = 1500


@scenario("1,500 idle connections on 1,024 descriptors end nothing, and calls go on")
def few_descriptors(stage: Stage) -> str:
    directory = stage.up.directory / "few"
    directory.mkdir(exist_ok=True)
    up = Up(directory, descriptors=1024)
    up.start()
    try:
        few = Stage(up)
        few.workload("box")
        with contextlib.ExitStack() as stack:
            for _ in range(IDLE):
                client = stack.enter_context(socket.socket())
                client.settimeout(0.05)
                with contextlib.suppress(OSError):
                    client.connect(("127.0.0.1", up.port))
            few.kube.get("/readyz")
            held(up.runs, f"`up` has ended: {up.tail(3)}")
            health = few.until(
                lambda: _health(few), "health is answered beside the idle connections", seconds=60
            )
        instance = few.instance("alice", "box")
        few.sh(instance, "echo kept > note")
        few.release("alice", "box")
        few.close()
        held(up.runs, "`up` has ended")
        return f"health {health}; claim, exec and release after it"
    finally:
        if up.runs:
            up.stop()


def _health(stage: Stage) -> int:
    with contextlib.suppress(Exception):
        return int(stage.rest.get("/health", timeout=5).status_code)
    return 0


@scenario("one tenant's commands do not take everybody's turns")
def fair_shares(stage: Stage) -> str:
    stage.workload("greedy")
    stage.workload("modest")
    greedy = stage.instance("greedy", "greedy")
    modest = stage.instance("modest", "modest")
    sleeps = stage.codes(80, lambda _: stage.execute(greedy, "sleep", "8", seconds=20))
    stage.until(
        lambda: any(one.done() and one.result() == 429 for one in sleeps),
        "the greedy tenant is told 429",
        seconds=15,
    )
    answer = stage.execute(modest, "true")
    codes = [future.result() for future in sleeps]
    held(answer.status_code == 200, f"the modest tenant's command: {answer.text[:200]}")
    return f"{codes.count(429)} of 80 commands refused with 429, the other tenant's ran"
