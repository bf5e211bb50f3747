"""Hooks as they are run: commands in a real container, and what is said of those that end badly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.tenancy.claims.applying.hooks import LIMIT, SAID, ExecHooks
from boilerhouse.tenancy.claims.snapshots import HookFailed
from tests.e2e.embedded_fixture import Scene
from tests.e2e.tenants import eventually, pod, sh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LONG = timedelta(seconds=60)


@pytest.fixture
async def stage(scene: Scene) -> AsyncIterator[Scene]:
    """An instance whose program does nothing."""
    idle = sh("trap exit TERM; while :; do sleep 0.1; done", "tenant")
    await scene.create(pod("inst", sh("exec sleep 1000", "other"), idle))
    await scene.ready("inst")
    yield scene


async def failure(scene: Scene, script: str, timeout: timedelta = LONG) -> str:
    """Run a script that is to fail; return what is said of it."""
    with pytest.raises(HookFailed) as failed:
        await ExecHooks(scene.client).run("inst", ["/bin/sh", "-c", script], timeout)
    return str(failed.value)


async def test_a_hook_runs_in_the_tenants_container(stage: Scene) -> None:
    """To its end, and nothing is said of one that ends well."""
    hooks = ExecHooks(stage.client)
    await hooks.run("inst", ["/bin/sh", "-c", "sleep 0.2; echo done > /tmp/hook"], LONG)
    assert await stage.sh("inst", "cat /tmp/hook", "tenant") == "done"
    assert await stage.sh("inst", "ls /tmp", "other") == ""


async def test_a_hook_that_does_not_end_in_time(stage: Scene) -> None:
    """It fails when its time is over, says what it said until then, and does not run on."""
    clock = SystemClock()
    began = clock.monotonic()
    said = await failure(
        stage, "echo half >&2; touch /tmp/on; sleep 600; touch /tmp/late", timedelta(seconds=1)
    )
    assert clock.monotonic() - began < 20
    assert said == "/bin/sh did not end within 1 s: half"

    async def over() -> bool:
        count = "ls -d /proc/[0-9]* | while read p; do tr '\\0' ' ' < $p/cmdline; echo; done"
        return "sleep 600" not in await stage.sh("inst", f"{count} 2>/dev/null", "tenant")

    await eventually(over)


async def test_what_a_hook_writes_is_bounded(stage: Scene) -> None:
    """Megabytes do no harm; of one that fails the last words are repeated, and no more."""
    hooks = ExecHooks(stage.client)
    await hooks.run("inst", ["/bin/sh", "-c", "head -c 20000000 /dev/zero"], LONG)
    said = await failure(stage, "yes no | head -c 20000000; echo the end; exit 3")
    assert said.startswith("/bin/sh ended with code 3: ") and said.endswith("the end")
    assert len(said) <= SAID + 30 < LIMIT
    # What was said of the failure is on stderr, if anything is.
    assert await failure(stage, "echo out; echo why >&2; exit 4") == (
        "/bin/sh ended with code 4: why"
    )


async def test_a_hook_that_is_killed(stage: Scene) -> None:
    """By a signal: its code says so. With its container: that it did not come to its end."""
    assert await failure(stage, "kill -9 $$") == "/bin/sh ended with code 137"
    said = await failure(stage, "echo bye >&2; kill -TERM 1; kill -TERM -1; sleep 60")
    assert said.startswith("/bin/sh ")
    assert "did not end within" not in said


async def test_a_hook_that_is_not_there(stage: Scene) -> None:
    """A missing program and a missing instance are failures that name what is missing."""
    with pytest.raises(HookFailed, match="no-such-hook ended with code 127"):
        await ExecHooks(stage.client).run("inst", ["no-such-hook"], LONG)
    with pytest.raises(HookFailed, match="nobody"):
        await ExecHooks(stage.client).run("nobody", ["true"], LONG)
