"""Halting and cutting off, with each of the kernel's freezers that is here, and without any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import Exit, SandboxError
from boilerhouse.embedded.kubelet.kernel.cgroup import Groups
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox
from boilerhouse.platform.processes import freezing
from tests.security.containers import Heard, execute, sandboxes, shell

# The parent hangs in the kernel until its child has a program of its own or ends: never.
VFORK = """
import ctypes, os, signal
CLONE_VFORK, number = 0x4000, {"x86_64": 56, "aarch64": 220}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    print("child", flush=True)
    while True:
        signal.pause()
print("parent", flush=True)
"""
TICKS = "while :; do (echo tick); sleep 0.005; done"


def groups(kind: str, directory: Path) -> Groups:
    """Return cgroups as a machine has them that knows only this freezer."""
    if kind == "none":
        return Groups({}, unified=False, unenforced="none are to be used")
    hidden = {"v1": " - cgroup2 ", "v2": " - cgroup cgroup rw,freezer"}[kind]
    directory.mkdir()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    (directory / "mountinfo").write_text("".join(line for line in mounts if hidden not in line))
    (directory / "cgroup").write_text(Path("/proc/self/cgroup").read_text())
    return Groups.find("boilerhouse", proc=directory)


@pytest.fixture(params=["v2", "v1", "none"])
async def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bubblewrapped]:
    found = groups(request.param, tmp_path / "proc")
    made = found.create("trial")
    if request.param != "none":
        if made.freezer is None or made.freezer.frees_the_killed != (request.param == "v2"):
            pytest.skip(f"this machine has no freezer of {request.param} that is ours")
        made.remove()
    monkeypatch.setattr(Groups, "find", lambda name: found)
    async with sandboxes(tmp_path / "data") as one:
        yield one


@pytest.fixture
async def pod(opened: Bubblewrapped) -> PodSandbox:
    return await opened.create("pod")


async def grown(heard: Heard, than: int = 0) -> int:
    async with asyncio.timeout(20):
        while len(heard.stdout) <= than:  # noqa: ASYNC110  written by another thread
            await asyncio.sleep(0.005)
    return len(heard.stdout)


async def still(heard: Heard) -> int:
    """See that nothing more is written, after what was on its way."""
    await asyncio.sleep(0.1)
    before = len(heard.stdout)
    await asyncio.sleep(0.3)
    assert len(heard.stdout) == before
    return before


async def alone(container: Container) -> None:
    """Wait until the container's own process is its only one."""
    async with asyncio.timeout(20):
        while others(container):  # noqa: ASYNC110  the kernel's doing
            await asyncio.sleep(0.01)


def others(container: Container) -> list[int]:
    return [pid for pid in container.processes() if pid != container.pid and freezing.state(pid)]


def names(container: Container) -> list[bytes]:
    """Return the command lines of all but the container's own process."""
    found = []
    for pid in others(container):
        with contextlib.suppress(OSError):  # ended just now
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


async def test_who_waits_in_vfork_comes_to_rest(pod: PodSandbox) -> None:
    """It cannot be stopped by a signal, and so could refuse to be released for ever."""
    heard = Heard()
    container = await pod.start(shell(f"exec python3 -c '{VFORK}'"), heard)
    await grown(heard)
    async with asyncio.timeout(8):
        await container.freeze()
    assert container.frozen
    await asyncio.to_thread(container.thaw)
    [child] = others(container)
    os.kill(child, signal.SIGKILL)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(0)
    assert heard.stdout == b"child\nparent\n"


async def test_who_waits_in_vfork_can_be_killed_while_halted(pod: PodSandbox) -> None:
    """As after a restore: none of its processes takes another step."""
    heard = Heard()
    container = await pod.start(shell(f"exec python3 -c '{VFORK}'"), heard)
    await grown(heard)
    await container.freeze()
    container.signal(signal.SIGKILL)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(137, signal.SIGKILL)
    assert heard.stdout == b"child\n"


async def test_what_is_halted_stands_still_goes_on_and_dies_halted(pod: PodSandbox) -> None:
    """However it forks; and killed while it is halted it writes nothing any more."""
    heard = Heard()
    container = await pod.start(shell(TICKS), heard)
    for _ in range(5):
        await grown(heard, len(heard.stdout))
        await container.freeze()
        before = await still(heard)
        await asyncio.to_thread(container.thaw)
        await grown(heard, before)
    await container.freeze()
    before = await still(heard)
    container.signal(signal.SIGKILL)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(137, signal.SIGKILL)
    assert len(heard.stdout) == before


async def test_a_signal_does_not_wake_what_is_halted(pod: PodSandbox) -> None:
    """A command that is let in while the tenant is halted cannot let it run, with a freezer."""
    heard = Heard()
    container = await pod.start(shell(f"trap : CONT USR1; {TICKS}"), heard)
    if container.slot.group.freezer is None:
        pytest.skip("SIGCONT ends what SIGSTOP began")
    await grown(heard)
    await container.freeze(allow_exec=True)
    before = await still(heard)
    assert await execute(container, "sh", "-c", "kill -CONT -1; kill -USR1 -1") == (0, b"", b"")
    assert await still(heard) == before


async def test_a_command_that_is_cut_off_ends_with_all_it_started(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """Also with what has left its process group and session; without cgroups not with orphans."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    script = "setsid sleep 1001 & setsid sh -c 'sleep 1002 & sleep 1003' & sleep 1004"
    expected = 6
    if container.slot.group.freezer is not None:
        script = f"setsid -f sleep 1005; {script}"
        expected += 1
    program = await container.exec(["sh", "-c", script])
    async with asyncio.timeout(20):
        while len(others(container)) < expected:  # noqa: ASYNC110  the command's doing
            await asyncio.sleep(0.01)
    await program.close()
    await alone(container)


async def test_a_fork_storm_is_cut_off(pod: PodSandbox) -> None:
    """A command whose processes each live a moment and leave the next behind."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    if container.slot.group.freezer is None:
        pytest.skip("without cgroups it is not found")
    program = await container.exec(["sh", "-c", "f() { setsid -f true; f & }; f; exec sleep 9"])
    await asyncio.sleep(0.3)
    await program.close()
    await alone(container)


async def test_what_an_ended_command_left_is_the_containers(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """It stays, is halted and goes on with the container, ends with it, and leaves no group."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    command = ("sh", "-c", "setsid sleep 1001 >&- 2>&- & echo hi")
    assert await execute(container, *command) == (0, b"hi\n", b"")
    for _ in range(3):
        assert await execute(container, "true") == (0, b"", b"")
    [left] = others(container)
    await container.freeze()
    await asyncio.to_thread(container.thaw)
    assert others(container) == [left]
    group = container.slot.group
    if group.freezer is not None:
        async with asyncio.timeout(20):
            # Of the commands that left nothing there is no group any more.
            while len(list(group.freezer.directory.glob("exec-*"))) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    container.signal(signal.SIGKILL)
    await asyncio.wait_for(container.wait(), 20)
    await pod.close()
    assert not any(directory.exists() for directory in (*group.directories, *group.joined))


async def test_a_command_is_cut_off_while_the_container_is_halted(pod: PodSandbox) -> None:
    """Whoever waited for it hangs up during a save: it ends, and nothing else moves."""
    heard = Heard()
    container = await pod.start(shell(TICKS), heard)
    program = await container.exec(["sh", "-c", "setsid sleep 1001 & sleep 1002"])
    await grown(heard)
    await container.freeze()
    await asyncio.wait_for(program.close(), 20)
    before = await still(heard)
    with pytest.raises(SandboxError, match="halted"):
        await container.exec(["true"])
    await asyncio.to_thread(container.thaw)
    await grown(heard, before)
    assert not [name for name in names(container) if b"100" in name]


async def test_a_caller_that_leaves_early_leaves_no_command(pod: PodSandbox) -> None:
    """A call cut off while its command is on its way in does not let it live on."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    for _ in range(5):
        calling = asyncio.create_task(container.exec(["sh", "-c", "setsid sleep 1001; :"]))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await container.freeze()  # waits for whoever is on its way
        await asyncio.to_thread(container.thaw)
    await alone(container)


async def test_commands_count_towards_the_limits(pod: PodSandbox) -> None:
    """Memory of a command is the container's: more than its limit is refused or kills."""
    container = await pod.start(shell("exec sleep 1000", memory_bytes=64 << 20), Heard())
    if not container.slot.group.by_controller:
        pytest.skip("no cgroups are ours here")
    code, out, _ = await execute(container, "python3", "-c", "print(len(b'x' * (256 << 20)))")
    assert (code, out) != (0, b"268435456\n")


@pytest.mark.parametrize("kind", ["v2", "v1"])
def test_an_orderly_end_leaves_no_group(kind: str, tmp_path: Path) -> None:
    """Whoever is still in one is killed, frozen or not, and the group removed."""
    found = groups(kind, tmp_path / "proc")
    if found.unenforced is not None:
        pytest.skip(found.unenforced)
    group = found.create("left")
    if group.freezer is None or group.freezer.frees_the_killed != (kind == "v2"):
        found.close()
        pytest.skip(f"this machine has no freezer of {kind} that is ours")
    with subprocess.Popen(["sleep", "1000"]) as process:
        for directory in group.joined:
            (directory / "cgroup.procs").write_text(str(process.pid))
        asyncio.run(group.freezer.freeze())
        # It is buried by us, as a tenant is by the fork server.
        burying = threading.Thread(target=process.wait)
        burying.start()
        found.close()
        burying.join(20)
    assert process.returncode == -signal.SIGKILL
    assert not any(directory.parent.exists() for directory in (*group.directories, *group.joined))
