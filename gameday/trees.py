"""Trees that no walk by path name or by recursion survives."""

from __future__ import annotations

from gameday.scenario import held, scenario
from gameday.stage import Stage

DEEP = """
import os
for _ in range({levels}):
    os.mkdir({name!r}); os.chdir({name!r})
open('bottom', 'w').write('found')
"""
BOTTOM = """
import os
for _ in range({levels}):
    os.chdir({name!r})
print(open('bottom').read())
"""


@scenario("deep directories and long paths are saved, restored, removed, and no start fails")
def deep_trees(stage: Stage) -> str:
    stage.workload("digger")
    wanted = {"deep": (5000, "d"), "long": (130, "x" * 200)}
    for tenant, (levels, name) in wanted.items():
        instance = stage.instance(tenant, "digger")
        python(stage, instance, DEEP.format(levels=levels, name=name))
        stage.release(tenant, "digger")
    stage.restart()
    for tenant, (levels, name) in wanted.items():
        instance = stage.instance(tenant, "digger")
        seen = python(stage, instance, BOTTOM.format(levels=levels, name=name))
        held(seen.strip() == "found", f"{tenant}: {seen!r}")
        stage.rest.post(f"/instances/{instance}/destroy")
    return "5,000 levels, and a path of 26,000 characters: back after a restart"


def python(stage: Stage, instance: str, program: str) -> str:
    answer = stage.execute(instance, "python3", "-c", program, seconds=120)
    done = answer.json()
    held(answer.status_code == 200 and done["exitCode"] == 0, f"exec: {answer.text[:300]}")
    return str(done["stdout"])
