"""A program's terminal: of its container, resizable, with job control, and never a silent one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import socket
import struct
import termios
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.sandbox.execing import Program
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sandbox.sandbox import PodSandbox
from tests.security.containers import Heard, sandboxes, shell

SECONDS = 20


@pytest.fixture
async def pod(tmp_path: Path) -> AsyncIterator[PodSandbox]:
    async with sandboxes(tmp_path / "data") as opened:
        yield await opened.create("pod")


async def shown(program: Program, text: bytes) -> bytes:
    """Read a terminal until it shows this, and return all that it has shown."""
    seen = b""
    try:
        async with asyncio.timeout(SECONDS):
            while text not in seen:
                data = await program.read("stdout")
                assert data, "the terminal is at its end"
                seen += data
    except BaseException as error:
        error.add_note(f"the terminal showed {seen!r} and not {text!r}")
        raise
    return seen


@contextlib.contextmanager
def telling(container: Container, program: Program) -> Iterator[None]:
    """Have a failure tell what the terminal and the processes at it are doing."""
    try:
        yield
    except BaseException as error:
        error.add_note(_state(program))
        for pid in container.processes():
            error.add_note(_process(pid))
        raise


def _state(program: Program) -> str:
    output, given = program.stdio.output, program.stdio.input is not None
    if output is None or output.fileno() < 0:
        return "terminal: our end is not there"
    try:
        unread = struct.unpack("i", fcntl.ioctl(output.fileno(), termios.FIONREAD, bytes(4)))[0]
        foreground = os.tcgetpgrp(output.fileno())
    except OSError as error:
        return f"terminal: {error}"
    return f"terminal: {unread} bytes unread, {foreground=}, input {'open' if given else 'missing'}"


def _process(pid: int) -> str:
    kept = ("Name", "State", "NSpid", "NSpgid", "NSsid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn")
    with contextlib.suppress(OSError):
        about = Path(f"/proc/{pid}")
        lines = (about / "status").read_text().replace("\t", " ").splitlines()
        told = ", ".join(line for line in lines if line.partition(":")[0] in kept)
        return f"process {pid}: {told}, in {(about / 'wchan').read_text()}"
    return f"process {pid}: has ended"


@contextlib.contextmanager
def descriptors(spare: int) -> Iterator[None]:
    """Leave this process only so many descriptors to open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/dev/null", os.O_RDONLY)]
    try:
        highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))  # noqa: PTH208
        while taken[-1] < highest:
            taken.append(os.dup(taken[0]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + spare, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)


async def test_a_terminal_has_a_name_a_size_and_job_control(pod: PodSandbox) -> None:
    """With a TTY the program has a terminal of its container, resizable, with working Ctrl-C."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    program = await container.exec(["sh", "-c", "read go; tty; stty size; cat"], tty=True)
    with telling(container, program):
        program.resize(101, 31)
        await program.write(b"go\n")
        assert b"\n/dev/pts/0\r\n" in await shown(program, b"31 101\r\n")
        # Shown by the terminal, then by `cat`: Ctrl-C is for that. Between vfork and exec dash's
        # child ignores SIGINT, and dash keeps its own until the child has ended.
        await program.write(b"there\n")
        await shown(program, b"there\r\nthere\r\n")
        await program.write(b"\x03")
        assert await asyncio.wait_for(program.wait(), SECONDS) == 130
    await program.close()


async def test_a_terminal_is_there_at_the_gate(pod: PodSandbox) -> None:
    """It is made before, and the program finds it."""
    heard = Heard()
    prepared = await pod.prepare(replace(shell("test -t 1 && echo tty"), tty=True))
    await asyncio.wait_for((await prepared.start(heard)).wait(), SECONDS)
    assert heard.stdout == b"tty\r\n"


async def test_with_few_descriptors_a_terminal_is_refused_or_answers(pod: PodSandbox) -> None:
    """However few are left: none is given that shows nothing of what is typed."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    answered = []
    for spare in range(8):
        try:
            with descriptors(spare):
                program = await container.exec(["cat"], tty=True)
        except (SandboxError, OSError):
            answered.append(False)
            continue
        with telling(container, program):
            await program.write(b"there\n")
            await shown(program, b"there\r\nthere\r\n")
        await program.close()
        answered.append(True)
    assert (answered[0], answered[-1]) == (False, True)
    await alone(container)


async def test_a_program_whose_terminal_is_lost_is_ended(
    pod: PodSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no descriptor is left for it: by exec, as a container's own, and at the gate."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    receive = socket.recv_fds

    def full(channel: socket.socket, size: int, most: int) -> tuple[bytes, list[int], int, object]:
        """Do as the kernel does for a process that has no descriptor left."""
        data, fds, flags, address = receive(channel, size, most)
        for fd in fds:
            os.close(fd)
        return data, [], flags | socket.MSG_CTRUNC, address

    monkeypatch.setattr(socket, "recv_fds", full)
    stubborn = "trap '' HUP; while :; do sleep 1000; done"
    with pytest.raises(SandboxError, match="terminal cannot be taken: Too many open files"):
        await container.exec(["sh", "-c", stubborn], tty=True)
    await alone(container)
    for start in (pod.prepare(shell(stubborn, tty=True)), pod.start(shell("", tty=True), Heard())):
        with pytest.raises(SandboxError, match="terminal cannot be taken"):
            await start
    assert pod.containers == {container}


async def alone(container: Container) -> None:
    """Wait until only a container's own process is in it."""
    async with asyncio.timeout(SECONDS):
        while len(container.processes()) > 1:  # noqa: ASYNC110  other processes' doing
            await asyncio.sleep(0.005)
