"""A Pod's processes, as pid 1: `python -m tests.unit.node.agent.freezer.pod_program STORY`.

The first process stands for the pause container. The tenant's programs and the agent are its
children, as in a Pod whose containers share one process namespace. The agent's part of a story
runs in a child of its own and ends with 0 if the story went as it should.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants import hook

hook.install()

from boilerhouse.node.agent.freezer.processes import PodProcesses  # noqa: E402
from boilerhouse.platform.processes import freezing, vforking  # noqa: E402  by then it may be wrong
from boilerhouse.platform.processes.freezing import Restless  # noqa: E402

Story = Callable[[PodProcesses], Coroutine[None, None, None]]

# Each writes a byte to the file named by $OUT, over and over, in a way of its own.
LOOP = 'while :; do printf x >> "$OUT"; done'
FORKS = 'while :; do (printf x >> "$OUT"; exec true); done'
# Every generation lives just long enough to make the next: nobody that was listed is there later.
CHAIN = 'exec >> "$OUT"; f() { printf x; f & exit; }; f'
# The child looks for its program in thousands of places: most of its life it has none of its own.
VFORKS = """
import os, subprocess
os.environ["PATH"] = ":".join(f"/{n}" for n in range(5000)) + ":/bin:/usr/bin"
with open(os.environ["OUT"], "ab", buffering=0) as out:
    while True:
        subprocess.run(["true"], close_fds=False)
        out.write(b"x")
"""
VFORK_HANGS = """
import ctypes, os, signal
out = os.open(os.environ["OUT"], os.O_WRONLY | os.O_APPEND)
CLONE_VFORK, number = 0x4000, {"x86_64": 56, "aarch64": 220}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    os.write(out, b"c")
    while True:
        signal.pause()
os.write(out, b"p")
"""
THREADS = """
import ctypes, os, threading
def write():
    while True:
        with open(os.environ["OUT"], "ab") as file:
            file.write(b"x")
threading.Thread(target=write).start()
ctypes.CDLL(None).pthread_exit(None)  # the first thread is a zombie from now on
"""


async def forks(pod: PodProcesses) -> None:
    with tenant("/bin/sh", "-c", FORKS) as out:
        await stands_still_and_goes_on(pod, out)


async def vforks(pod: PodProcesses) -> None:
    """Whoever hangs in the kernel until its child has a program is no obstacle."""
    with tenant(sys.executable, "-c", VFORKS) as out:
        await stands_still_and_goes_on(pod, out)


async def vfork_hangs(pod: PodProcesses) -> None:
    """A parent whose child never gets a program of its own comes to rest with it."""
    with tenant(sys.executable, "-c", VFORK_HANGS) as out:
        await grown(out, 0)
        async with asyncio.timeout(8):
            await pod.freeze()
        await pod.thaw()
        await pod.freeze()
        await pod.kill()
        async with asyncio.timeout(5):
            while pod.of_tenant():  # noqa: ASYNC110  the kernel's doing
                await asyncio.sleep(0.002)
        assert out.read_text() == "c", "its parent took a step"


async def vfork_unnamed(pod: PodProcesses) -> None:
    """The same for an agent that may not see what a process waits for."""
    vforking.waits_in = lambda pid, thread: ""
    await vfork_hangs(pod)


async def a_disk_is_no_vfork(pod: PodProcesses) -> None:
    """A process that waits in the kernel for anything else is not at rest, whatever child it has.

    There is no disk to wait for here: the kernel names another place.
    """
    vforking.waits_in = lambda pid, thread: "io_schedule"
    with tenant(sys.executable, "-c", VFORK_HANGS) as out:
        await grown(out, 0)

        def numbers() -> list[int]:
            return [process.pid for process in pod.of_tenant()]

        try:
            await freezing.freeze(numbers, os.kill, seconds=2)
        except Restless as error:
            assert "waits in the kernel (in io_schedule)" in str(error), error
        else:
            raise AssertionError("it came to rest")


async def zombie_leader(pod: PodProcesses) -> None:
    with tenant(sys.executable, "-c", THREADS) as out:
        await stands_still_and_goes_on(pod, out)


async def newcomers(pod: PodProcesses) -> None:
    """A container that is started again while the tenant is halted is halted as well."""
    with tenant("/bin/sh", "-c", LOOP) as out:
        await pod.freeze()
        with tenant("/bin/sh", "-c", LOOP) as later:
            await grown(later, 0)
            await asyncio.sleep(0.5)
            await unchanged(later)
            await unchanged(out)
            await pod.thaw()
            await grown(later, size(later))
            await grown(out, size(out))


async def commands(pod: PodProcesses) -> None:
    """With `allow_exec` who comes later runs, and is halted by the freeze of a save."""
    with tenant("/bin/sh", "-c", LOOP) as out:
        await grown(out, 0)
        await pod.freeze(allow_exec=True)
        with tenant("/bin/sh", "-c", LOOP) as later:
            await grown(later, 0)
            await pod.freeze(allow_exec=True)
            await grown(later, size(later))
            await unchanged(out)
            await pod.freeze()
            await unchanged(later)
            await unchanged(out)
            await pod.thaw()
            await grown(later, size(later))
            await grown(out, size(out))
            await pod.freeze(allow_exec=True)
            await pod.kill()
            async with asyncio.timeout(5):
                while pod.of_tenant():  # noqa: ASYNC110  the kernel's doing
                    await asyncio.sleep(0.002)


async def kills_the_halted(pod: PodProcesses) -> None:
    """Who stands still dies without another step; who came meanwhile and runs does not."""
    trap = 'trap "printf asked > $OUT" TERM; printf x > "$OUT"; while :; do sleep 0.01; done'
    with tenant("/bin/sh", "-c", trap) as out:
        await grown(out, 0)
        await pod.freeze()
        await pod.kill()
        async with asyncio.timeout(5):
            while pod.of_tenant():  # noqa: ASYNC110  the kernel's doing
                await asyncio.sleep(0.002)
        assert out.read_text() == "x", "it was asked to end, and did something"
        with tenant("/bin/sh", "-c", LOOP) as later:
            await grown(later, 0)
            await pod.kill()
            await grown(later, size(later))


async def outrun(pod: PodProcesses) -> None:
    """A chain of processes that each live a moment is halted, or is an error in time."""
    with tenant("/bin/sh", "-c", CHAIN) as out:
        await grown(out, 0)
        async with asyncio.timeout(20):
            try:
                await pod.freeze()
            except Restless:
                await grown(out, size(out))
            else:
                await unchanged(out)
                await pod.thaw()
                await grown(out, size(out))


async def bounded(pod: PodProcesses) -> None:
    """Somebody who cannot be stopped is an error in time, and the others run again."""
    with tenant("/bin/sh", "-c", LOOP) as out:
        await grown(out, 0)

        def numbers() -> list[int]:
            return [*(process.pid for process in pod.of_tenant()), os.getpid()]

        def send(pid: int, number: int) -> None:
            if pid != os.getpid():
                os.kill(pid, number)

        try:
            await freezing.freeze(numbers, send, seconds=0.3)
        except Restless as error:
            assert "did not come to rest in 0.3 s" in str(error), error
        else:
            raise AssertionError("it came to rest")
        await grown(out, size(out))


async def stands_still_and_goes_on(pod: PodProcesses, out: Path) -> None:
    await grown(out, 0)
    for milliseconds in range(20):
        await asyncio.sleep(milliseconds / 1000)  # else each time finds it right after a byte
        await pod.freeze()
        await unchanged(out)
        await pod.thaw()
        await grown(out, size(out))


async def grown(out: Path, than: int) -> None:
    async with asyncio.timeout(20):
        while size(out) <= than:  # noqa: ASYNC110  another process's doing
            await asyncio.sleep(0.002)


async def unchanged(out: Path) -> None:
    before = size(out)
    await asyncio.sleep(0.02)
    assert size(out) == before, "it writes though it is halted"


def size(out: Path) -> int:
    return out.stat().st_size


@contextmanager
def tenant(*argv: str) -> Iterator[Path]:
    """Run a program that is no child of ours: whoever makes it ends at once."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(
            ["setsid", "--fork", *argv], env={**os.environ, "OUT": file.name}, check=True
        )
        yield Path(file.name)


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        forks,
        vforks,
        vfork_hangs,
        vfork_unnamed,
        a_disk_is_no_vfork,
        zombie_leader,
        newcomers,
        commands,
        kills_the_halted,
        outrun,
        bounded,
    )
}


def main(name: str) -> int:
    assert os.getpid() == 1, "this is for a process namespace of its own"
    agent = os.fork()
    if agent == 0:
        code = 1
        try:
            asyncio.run(STORIES[name](PodProcesses()))
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    while True:  # the first process buries everybody; with its end all end
        pid, status = os.wait()
        if pid == agent:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
