"""Containers that start in a cgroup where processes have waited for them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import Exit
from boilerhouse.embedded.kubelet.forkserver.slots import PREFORKED, SIZE, discard
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox
from tests.security.containers import Heard, execute, run, sandboxes, shell


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Bubblewrapped]:
    async with sandboxes(tmp_path) as found:
        if found.groups.unenforced is not None:
            pytest.skip(found.groups.unenforced)
        yield found


@pytest.fixture
async def pod(opened: Bubblewrapped) -> AsyncIterator[PodSandbox]:
    made = await opened.create("pod")
    try:
        yield made
    finally:
        await made.close()
        opened.forget("pod")


async def filled(opened: Bubblewrapped) -> list[int]:
    """Have the stock filled and return who waits in it, once all are in their groups."""
    opened.slots.fill(0)
    await until(lambda: len(opened.slots) == SIZE)
    await until(lambda: len(waiting(opened)) == SIZE * PREFORKED)
    return waiting(opened)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  processes, of which nobody tells
            await asyncio.sleep(0.01)


def waiting(opened: Bubblewrapped) -> list[int]:
    return sorted(pid for path in stocked(opened) for pid in members(path))


def stocked(opened: Bubblewrapped) -> list[Path]:
    """Return where those that wait go last: whoever is there is in all of its groups."""
    look = opened.groups.create("a-look")
    last = look.joined[-1]
    if look.freezer is None:
        found = list(last.parent.glob("stock.*"))
    else:
        found = list(last.parent.parent.glob(f"stock.*/{last.name}"))
    look.remove()
    return found


def members(path: Path) -> list[int]:
    try:
        return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]
    except OSError:
        return []


async def test_a_container_is_in_the_group_that_waited_for_it(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """Its sandbox, its own process and what is executed in it are where its limits are."""
    waited = await filled(opened)
    container = await pod.start(shell("sleep 1000", memory_bytes=64 << 20), Heard())
    group = container.slot.group
    assert group.by_controller["memory"].name.startswith("stock.")
    listed = group.processes()
    assert listed is not None
    assert container.pid in listed
    assert set(listed) & set(waited), "bwrap is one that waited"
    limit = "memory.max" if group.unified else "memory.limit_in_bytes"
    assert int((group.by_controller["memory"] / limit).read_text()) == 64 << 20
    assert (await execute(container, "/bin/echo", "hello"))[1] == b"hello\n"
    container.signal(signal.SIGKILL)
    await container.wait()


async def test_what_was_made_ready_has_waited_there_too(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """A life at its gate is in such a group, and one that is given up leaves no group behind."""
    await filled(opened)
    prepared = await pod.prepare(shell("echo up; exec sleep 1000"))
    heard = Heard()
    container = await prepared.start(heard)
    assert container.pid in (container.slot.group.processes() or ())
    given_up = await pod.prepare(shell("true"))
    group = given_up._container.slot.group
    await given_up.discard()
    assert not any(path.exists() for path in group.directories)


async def test_a_container_starts_though_who_waited_for_it_is_dead(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """Processes that wait are a gain and no condition."""
    for pid in await filled(opened):
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not waiting(opened))
    exited, out, _ = await run(pod, shell("echo here"))
    assert (exited, out) == (Exit(0), b"here\n")


async def test_a_network_that_was_made_ahead_is_nobody_elses(opened: Bubblewrapped) -> None:
    """Each Pod has a network of its own, with nothing in it but its loopback."""
    await filled(opened)
    seen = set()
    for name in ("one", "other"):
        pod = await opened.create(name)
        script = "readlink /proc/self/ns/net; tail -n +3 /proc/net/dev | cut -d: -f1"
        _, out, _ = await run(pod, shell(script))
        network, *devices = out.decode().split()
        assert devices == ["lo"]
        seen.add(network)
        await pod.close()
        opened.forget(name)
    assert len(seen) == 2


async def test_who_waits_holds_nothing_of_the_fork_server(opened: Bubblewrapped) -> None:
    """Its socket, and what a sandbox is made with: no other's socket, pipe or namespace."""
    for pid in await filled(opened):
        held = _held(pid)
        sockets = [one for one in held if one.startswith("socket:")]
        memory = [one for one in held if one.startswith("/memfd:")]
        assert len(sockets) == 1
        assert len(memory) == 3
        assert len(held) == 3 + len(sockets) + len(memory)


async def test_who_waits_goes_with_the_fork_server(opened: Bubblewrapped) -> None:
    """A fork server that is killed leaves nobody in any group."""
    waited = await filled(opened)
    os.kill(opened.fork_server.pid, signal.SIGKILL)
    await asyncio.wait_for(opened.died, 10)
    await until(lambda: not any(_lives(pid) for pid in waited))


async def test_nothing_is_left_of_a_stock(tmp_path: Path) -> None:
    """Closing ends who waits and removes their groups, also in the middle of a filling."""
    async with sandboxes(tmp_path) as opened:
        waited = await filled(opened)
        roots = stocked(opened)
        assert len(roots) == SIZE
        await discard(await opened.slots.take("pod.main.0"))
        opened.slots.fill(0)
        await asyncio.sleep(0)
    assert not any(_lives(pid) for pid in waited)
    assert not any(path.exists() for path in roots)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _held(pid: int) -> list[str]:
    return [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
