"""A container's life: how it starts, ends, is signalled, entered, frozen, and leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.container import Exit, Mount, SandboxError
from boilerhouse.embedded.kubelet.forkserver import bwrap
from boilerhouse.embedded.kubelet.sandbox.sandbox import (
    Bubblewrapped,
    PodSandbox,
)
from tests.absence import sandbox_unavailable
from tests.security.containers import Heard, execute, run, sandboxes, shell


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Bubblewrapped]:
    async with sandboxes(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def pod(opened: Bubblewrapped) -> PodSandbox:
    return await opened.create("pod")


async def until(heard: Heard, text: bytes) -> None:
    async with asyncio.timeout(20):
        while text not in heard.stdout:  # noqa: ASYNC110  written by another thread
            await asyncio.sleep(0.005)


def children(opened: Bubblewrapped) -> list[int]:
    """Return whom the fork server has started, oldest first."""
    pid = opened.fork_server.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_output_and_exit_code_are_kept_apart(pod: PodSandbox) -> None:
    """Both streams arrive whole, with the code the program ended with."""
    ended = await run(pod, shell("echo out; echo err >&2; exit 7"))
    assert ended == (Exit(7), b"out\n", b"err\n")


async def test_a_program_killed_by_a_signal_says_so(pod: PodSandbox) -> None:
    """The code is 128 + the signal, as shells count."""
    exited, _, _ = await run(pod, shell("kill -SEGV $$"))
    assert exited == Exit(139, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("no-such-program",), 127, "no-such-program: not found"),
        (("/no/such/program",), 127, "/no/such/program: not found"),
        (("/etc/passwd",), 126, "/etc/passwd: Permission denied"),
        (("/usr",), 126, "/usr: Permission denied"),
        (("",), 127, ": not found"),
    ],
)
async def test_a_program_that_cannot_be_run_ends_as_in_a_shell(
    pod: PodSandbox, argv: tuple[str, ...], code: int, said: str
) -> None:
    """Missing is 127, not executable 126, and the reason is in the log; the same by exec."""
    exited, _, err = await run(pod, replace(shell(""), argv=argv))
    assert exited == Exit(code, start_error=said)
    assert err.decode() == said + "\n"
    idle = await pod.start(shell("exec sleep 1000"), Heard())
    assert await execute(idle, *argv) == (code, b"", said.encode() + b"\n")


async def test_who_stands_at_the_gate_has_seen_nothing(pod: PodSandbox, tmp_path: Path) -> None:
    """Its program runs only once it is let go, on what is in its volume by then."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    (volume / "old").touch()
    heard = Heard()
    spec = shell("touch ran; ls; exit 3", workdir="/data", mounts=(Mount(volume, "/data"),))
    prepared = await pod.prepare(spec)
    (volume / "old").unlink()
    (volume / "new").touch()
    await asyncio.sleep(0.2)  # for what must not happen
    assert prepared.stands
    assert os.listdir(volume) == ["new"]  # noqa: PTH208
    container = await prepared.start(heard)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(3)
    assert heard.stdout == b"new\nran\n"
    with pytest.raises(SandboxError, match="waits no longer"):
        await prepared.start(heard)


async def test_who_is_not_let_go_leaves_nothing(
    opened: Bubblewrapped, pod: PodSandbox, tmp_path: Path
) -> None:
    """Discarded, killed at the gate, or left behind by its Pod: it never ran, and is gone."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    spec = shell("touch /data/ran", mounts=(Mount(volume, "/data"),))
    discarded, killed, left = [await pod.prepare(spec) for _ in range(3)]
    await discarded.discard()
    await discarded.discard()
    os.kill(children(opened)[0], signal.SIGKILL)  # the oldest is one of the two that are left
    async with asyncio.timeout(20):
        while killed.stands and left.stands:  # noqa: ASYNC110  told by the fork server
            await asyncio.sleep(0.005)
    await pod.close()
    assert not (discarded.stands or killed.stands or left.stands)
    async with asyncio.timeout(20):
        while children(opened):  # noqa: ASYNC110  buried by the fork server
            await asyncio.sleep(0.005)
    assert os.listdir(volume) == []  # noqa: PTH208
    with pytest.raises(SandboxError):
        await pod.prepare(spec)


async def test_the_death_of_the_fork_server_is_seen_past_the_gate(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """Who waits there holds nothing that would hide it, and dies with it."""
    prepared = await pod.prepare(shell("exit 0"))
    os.kill(opened.fork_server.pid, signal.SIGKILL)
    await asyncio.wait_for(asyncio.shield(opened.died), 20)
    assert not prepared.stands


async def test_what_cannot_be_run_is_told_at_the_gate(pod: PodSandbox) -> None:
    """As of any other container: by its exit and its log."""
    heard = Heard()
    prepared = await pod.prepare(replace(shell(""), argv=("no-such-program",)))
    exited = await asyncio.wait_for((await prepared.start(heard)).wait(), 20)
    assert exited == Exit(127, start_error="no-such-program: not found")
    assert heard.stderr == b"no-such-program: not found\n"


async def test_only_the_given_environment_is_there(pod: PodSandbox) -> None:
    """Nothing of Boilerhouse's own environment; PATH and HOME where the spec has none."""
    _, out, _ = await run(pod, replace(shell(""), argv=("env",), env={"GREETING": "hi there"}))
    names = {line.partition(b"=")[0] for line in out.splitlines()}
    assert names == {b"GREETING", b"PATH", b"HOME"}
    assert b"GREETING=hi there" in out


async def test_what_a_container_leaves_behind_dies_with_it(pod: PodSandbox) -> None:
    """Background processes, even in sessions of their own, end with the container's process."""
    heard = Heard()
    container = await pod.start(shell("setsid sleep 1000 & sleep 1000 & echo up; exec cat"), heard)
    # `cat` reads /dev/null and ends at once; the sleepers hold the output open until killed.
    assert await asyncio.wait_for(container.wait(), 20) == Exit(0)
    assert container.processes() == []


async def test_sigterm_reaches_the_program_and_sigkill_everything(pod: PodSandbox) -> None:
    """A handler runs; without one, and by SIGKILL, the container ends."""
    heard = Heard()
    script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    container = await pod.start(shell(script), heard)
    await until(heard, b"up")
    container.signal(signal.SIGTERM)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(3)
    assert heard.stdout == b"up\nbye\n"
    plain = await pod.start(shell("exec sleep 1000"), Heard())
    plain.signal(signal.SIGTERM)
    assert await asyncio.wait_for(plain.wait(), 20) == Exit(143, signal.SIGTERM)
    stubborn = await pod.start(shell("trap '' TERM; sleep 1000"), Heard())
    stubborn.signal(signal.SIGKILL)
    assert await asyncio.wait_for(stubborn.wait(), 20) == Exit(137, signal.SIGKILL)


async def test_exec_sees_the_container_and_its_volumes(pod: PodSandbox, tmp_path: Path) -> None:
    """A program run by exec is in the same place, under the same uid, as the container's own."""
    volume = tmp_path / "volume"
    volume.mkdir()
    pod.own(volume)
    spec = replace(
        shell("echo made > /work/file; exec sleep 1000"),
        mounts=(Mount(volume, "/work"),),
        workdir="/work",
        env={"NAME": "value"},
    )
    container = await pod.start(spec, Heard())
    script = "until test -s file; do sleep 0.01; done; pwd; cat file; id -u; echo $NAME$MORE"
    ended = await execute(container, "sh", "-c", script, env={"MORE": "+"})
    assert ended == (0, b"/work\nmade\n1000\nvalue+\n", b"")
    assert (volume / "file").stat().st_uid == pod.host_uid


async def test_exec_streams_both_ways_and_ends_input_on_its_own(pod: PodSandbox) -> None:
    """Input can be ended while output goes on; a megabyte passes both pipes unharmed."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    program = await container.exec(["sh", "-c", "cat; echo end"], stdin=True)
    sent = os.urandom(1_000_003)

    async def feed() -> None:
        await program.write(sent)
        program.close_stdin()

    feeding = asyncio.create_task(feed())
    got = bytearray()
    while data := await program.read("stdout"):
        got += data
    await feeding
    assert got == sent + b"end\n"
    assert await program.wait() == 0
    await program.close()


async def test_closing_an_exec_kills_its_program(pod: PodSandbox) -> None:
    """A client that goes away takes its program, and what that started, along."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    program = await container.exec(["sh", "-c", "sleep 1001 & sleep 1002"])
    async with asyncio.timeout(20):
        while len(container.processes()) < 4:  # noqa: ASYNC110  other processes' doing
            await asyncio.sleep(0.01)
    await program.close()
    async with asyncio.timeout(20):
        while len(container.processes()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_an_ended_exec_left_belongs_to_the_container(
    opened: Bubblewrapped, pod: PodSandbox
) -> None:
    """A background process outlives the command that started it, and ends with the container."""
    container = await pod.start(shell("exec sleep 1000"), Heard())
    assert await execute(container, "sh", "-c", "sleep 1001 >&- 2>&- & echo hi") == (
        0,
        b"hi\n",
        b"",
    )
    await asyncio.sleep(0.2)  # for what must not happen
    assert len(container.processes()) == 2
    container.signal(signal.SIGKILL)
    await asyncio.wait_for(container.wait(), 20)
    async with asyncio.timeout(20):
        while children(opened):  # noqa: ASYNC110  buried by the fork server
            await asyncio.sleep(0.01)


async def test_exec_in_an_ended_container_is_refused(pod: PodSandbox) -> None:
    """The refusal says that the container does not run."""
    container = await pod.start(shell("exit 0"), Heard())
    await container.wait()
    with pytest.raises(SandboxError, match="not running"):
        await container.exec(["true"])


async def test_a_container_with_a_terminal_or_input(pod: PodSandbox) -> None:
    """`tty` and `stdin` of a Pod's container work as for exec."""
    heard = Heard()
    container = await pod.start(shell("read line; echo got $line", stdin=True), heard)
    await container.write(b"hello\n")
    assert await asyncio.wait_for(container.wait(), 20) == Exit(0)
    assert heard.stdout == b"got hello\n"
    heard = Heard()
    container = await pod.start(shell("test -t 0 && test -t 1 && echo yes", tty=True), heard)
    assert await asyncio.wait_for(container.wait(), 20) == Exit(0)
    assert heard.stdout == b"yes\r\n"


@pytest.mark.parametrize("tty", [False, True])
async def test_standard_streams_can_be_opened_by_name(pod: PodSandbox, *, tty: bool) -> None:
    """Programs that log to /dev/stdout or /dev/stderr, by a link even, can do so."""
    script = "echo a > /dev/stdout; echo b > /dev/stderr; echo c >> /proc/self/fd/1"
    heard = Heard()
    container = await pod.start(shell(f"{script}; exec sleep 1000", tty=tty), heard)
    code, out, err = await execute(container, "sh", "-c", script, tty=tty)
    assert (code, sorted((out + err).split())) == (0, [b"a", b"b", b"c"])
    async with asyncio.timeout(20):
        while len(heard.stdout + heard.stderr) < (9 if tty else 6):  # noqa: ASYNC110  the pump's
            await asyncio.sleep(0.005)
    assert sorted((heard.stdout + heard.stderr).split()) == [b"a", b"b", b"c"]


async def test_standard_input_can_be_opened_by_name(pod: PodSandbox) -> None:
    """/dev/stdin is what is sent."""
    container = await pod.start(shell("cat /dev/stdin", stdin=True), heard := Heard())
    await container.write(b"hello")
    container.close_stdin()
    assert await asyncio.wait_for(container.wait(), 20) == Exit(0)
    assert heard.stdout == b"hello"


async def test_a_frozen_container_stands_still_even_if_it_forks(pod: PodSandbox) -> None:
    """After freeze nothing is written any more; after thaw it goes on."""
    heard = Heard()
    script = "while :; do (echo tick); sleep 0.005; done"
    container = await pod.start(shell(script), heard)
    await until(heard, b"tick")
    await container.freeze()
    await asyncio.sleep(0.1)  # what was printed before passes the pump
    before = len(heard.stdout)
    await asyncio.sleep(0.3)
    assert len(heard.stdout) == before
    container.thaw()
    async with asyncio.timeout(20):
        while len(heard.stdout) <= before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_commands_run_in_a_frozen_container_that_allows_them(pod: PodSandbox) -> None:
    """`allow_exec` halts what is there and lets commands in; the freeze of a save halts those."""
    heard = Heard()
    container = await pod.start(shell("while :; do (echo tick); sleep 0.005; done"), heard)
    await until(heard, b"tick")
    await container.freeze(allow_exec=True)
    assert await execute(container, "sh", "-c", "echo in; exit 3") == (3, b"in\n", b"")
    ticking = await container.exec(["sh", "-c", "while :; do echo tick; sleep 0.005; done"])
    await container.freeze(allow_exec=True)
    assert await asyncio.wait_for(ticking.read("stdout"), 20)
    before = len(heard.stdout)
    assert await asyncio.wait_for(ticking.read("stdout"), 20)
    assert len(heard.stdout) == before
    await container.freeze()
    with pytest.raises(SandboxError, match="halted"):
        await container.exec(["true"])
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):  # what was written before
            while True:
                await ticking.read("stdout")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ticking.read("stdout"), 0.3)
    container.thaw()
    assert await asyncio.wait_for(ticking.read("stdout"), 20)
    async with asyncio.timeout(20):
        while len(heard.stdout) <= before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await ticking.close()


def processor_time(pid: int) -> int:
    """Return what a process has used, in nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


async def test_who_has_no_share_left_stands_still_and_gets_no_larger_one(pod: PodSandbox) -> None:
    """A container that is held back cannot stop: it is let run so far, and not a bit further."""
    container = await pod.start(shell("while :; do :; done", cpu=0.02), Heard())
    group = container.slot.group
    if not group.by_controller:
        pytest.skip("no cgroups are ours here")
    file = "cpu.max" if group.unified else "cpu.cfs_quota_us"
    limit = (group.by_controller["cpu"] / file).read_text()
    for _ in range(3):
        await container.freeze()
        spent = sum(processor_time(pid) for pid in container.processes())
        await asyncio.sleep(0.22)  # two periods, in which its share is 4 ms
        # A frozen process takes the kernel some microseconds more to put aside.
        assert sum(processor_time(pid) for pid in container.processes()) - spent < 500_000
        assert (group.by_controller["cpu"] / file).read_text() == limit
        container.thaw()


@pytest.mark.slow
async def test_a_fork_bomb_stays_in_its_container(pod: PodSandbox, opened: Bubblewrapped) -> None:
    """Forking without end hits the container's limit; others start and the bomb can be killed."""
    heard = Heard()
    bomb = "(while :; do sleep 1000 & done) 2>&1; echo spent; exec sleep 1000"
    container = await pod.start(shell(bomb), heard)
    async with asyncio.timeout(60):
        while b"spent" not in heard.stdout:  # noqa: ASYNC110  written by another thread
            await asyncio.sleep(0.05)
    assert 3000 < len(container.processes()) <= 4096
    other = await opened.create("other")
    exited, _, _ = await asyncio.wait_for(run(other, shell(":")), 60)
    assert exited == Exit(0)
    container.signal(signal.SIGKILL)
    assert await asyncio.wait_for(container.wait(), 60) == Exit(137, signal.SIGKILL)
    assert container.processes() == []


HOARD = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
kept, held, piece = [], 0, b"x" * (1 << 20)
try:
    while held < 400 << 20:
        writing = socket.create_connection(listener.getsockname())
        reading, _ = listener.accept()
        kept += [writing, reading]
        writing.setblocking(False)
        before = held
        try:
            while held < 400 << 20:
                held += writing.send(piece)
        except OSError:
            pass
        if held == before or len(kept) > LIMIT:
            break
except OSError:
    pass
print(held >> 20, flush=True)
"""


async def test_memory_in_sockets_counts(pod: PodSandbox, opened: Bubblewrapped) -> None:
    """A container cannot keep more than its memory in sockets that nobody reads.

    Beyond that the kernel of version 1 still gives each socket a few pages.
    """
    if opened.limits_unenforced is not None or "sockets" in opened.limits_enforced:
        pytest.skip("the memory of sockets cannot be limited here")
    heard = Heard()
    limit = 64 << 20
    script = f"exec python3 -c '{HOARD.replace('LIMIT', '400')}'"
    container = await pod.start(shell(script, memory_bytes=limit), heard)
    exited = await asyncio.wait_for(container.wait(), 60)
    if exited.oom_killed:
        return  # version 2: it is one account
    assert (exited.code, bytes(heard.stderr)) == (0, b"")
    assert 0 < int(heard.stdout) <= 80


async def test_memory_in_very_many_sockets_counts(pod: PodSandbox, opened: Bubblewrapped) -> None:
    """However many a container opens, it is killed for what is in them."""
    if opened.limits_unenforced is not None or "sockets" in opened.limits_enforced:
        pytest.skip("the memory of sockets cannot be limited here")
    hoard = HOARD.replace("LIMIT", "40000").replace("400 <<", "4000 <<")
    script = f"exec python3 -c '{hoard}while True: pass'"
    container = await pod.start(shell(script, memory_bytes=48 << 20), Heard())
    exited = await asyncio.wait_for(container.wait(), 90)
    assert exited == Exit(137, signal.SIGKILL, oom_killed=True)


async def test_a_link_in_place_of_a_volume_is_refused(pod: PodSandbox, tmp_path: Path) -> None:
    """A volume's directory that has become a link does not bind what the link names."""
    (tmp_path / "volume").symlink_to("/etc")
    spec = shell("ls /work", mounts=(Mount(tmp_path / "volume", "/work"),))
    with pytest.raises(SandboxError, match="symbolic link"):
        await pod.start(spec, Heard())


async def test_links_in_a_volume_lead_nowhere_outside(pod: PodSandbox, tmp_path: Path) -> None:
    """A link that a tenant makes in its volume resolves inside its own container only."""
    volume = tmp_path / "volume"
    volume.mkdir()
    pod.own(volume)
    secret = tmp_path / "secret"
    secret.write_text("machine's")
    script = f"ln -s {secret} /work/a; ln -s ../secret /work/b; cat /work/a /work/b"
    exited, out, _ = await run(pod, shell(script, mounts=(Mount(volume, "/work"),)))
    assert exited.code == 1
    assert out == b""


@pytest.mark.parametrize("target", ["/", "work", "/a/../b", ""])
async def test_a_volume_at_an_impossible_place_is_refused(
    pod: PodSandbox, tmp_path: Path, target: str
) -> None:
    """Targets must be absolute paths below the root, without detours."""
    with pytest.raises(SandboxError, match="cannot be mounted"):
        await pod.start(shell(":", mounts=(Mount(tmp_path, target),)), Heard())


async def test_a_read_only_volume_cannot_be_written(pod: PodSandbox, tmp_path: Path) -> None:
    """`read_only` holds against the owner of the files, too."""
    pod.own(tmp_path)
    spec = shell("touch /work/x", mounts=(Mount(tmp_path, "/work", read_only=True),))
    exited, _, err = await run(pod, spec)
    assert exited.code == 1
    assert b"Read-only" in err


async def test_two_pods_are_two_users_when_run_by_root(opened: Bubblewrapped) -> None:
    """As root each Pod has a uid of its own, that of no account; else there is only the user's."""
    one, two = await opened.create("one"), await opened.create("two")
    if os.geteuid() == 0:
        assert len({one.host_uid, two.host_uid, 0, 1000, 65534}) == 5
    else:
        assert one.host_uid == two.host_uid == os.geteuid()
    assert one.address != two.address


async def test_a_pod_keeps_its_identity_over_restarts(tmp_path: Path) -> None:
    """Address and uid come back with the Pod, until it is forgotten."""
    async with sandboxes(tmp_path / "data") as first:
        pod = await first.create("pod")
        before = (pod.address, pod.host_uid)
        await first.create("other")
    async with sandboxes(tmp_path / "data") as second:
        pod = await second.create("pod")
        assert (pod.address, pod.host_uid) == before
        await pod.close()
        second.forget("pod")
        again = await second.create("pod")
        assert again.address != before[0]


_DOOMED = """
import asyncio, sys
from pathlib import Path
from tests.security.containers import Heard, sandboxes, shell

async def main():
    async with sandboxes(Path(sys.argv[1])) as opened:
        pod = await opened.create("pod")
        container = await pod.start(shell("setsid sleep 1000 & exec sleep 1000"), Heard())
        program = await container.exec(["sleep", "1000"])
        while len(container.processes()) < 3:
            await asyncio.sleep(0.01)
        print(opened.fork_server.pid, *container.processes(), flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("victim", ["kubelet", "fork server"])
def test_nothing_outlives_a_kubelet_that_was_killed(tmp_path: Path, victim: str) -> None:
    """SIGKILL of our process, or of the fork server, ends every tenant's process at once."""
    command = [sys.executable, "-c", _DOOMED, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as kubelet:
        assert kubelet.stdout is not None
        pids = [int(word) for word in kubelet.stdout.readline().split()]
        assert len(pids) == 4
        watched = [os.pidfd_open(pid) for pid in pids]
        os.kill(kubelet.pid if victim == "kubelet" else pids[0], signal.SIGKILL)
        for pidfd in watched:
            assert _ended(pidfd)
        kubelet.kill()


def test_a_fork_server_ends_in_order_when_nobody_hears_what_it_tells(tmp_path: Path) -> None:
    """A kubelet that is killed while its tenants end: who is left is ended, not left to itself."""
    command = [sys.executable, "-c", _DOOMED, str(tmp_path / "data")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as kubelet:
        assert kubelet.stdout is not None and kubelet.stderr is not None
        server, *tenants = (int(word) for word in kubelet.stdout.readline().split())
        watched = [os.pidfd_open(pid) for pid in (server, *tenants)]
        os.kill(server, signal.SIGSTOP)
        for pid in tenants:
            os.kill(pid, signal.SIGKILL)
        kubelet.kill()
        kubelet.wait()
        os.kill(server, signal.SIGCONT)
        for pidfd in watched:
            assert _ended(pidfd)
        assert "Traceback" not in kubelet.stderr.read()


def _ended(pidfd: int) -> bool:
    import select

    try:
        readable, _, _ = select.select([pidfd], [], [], 20)
        return bool(readable)
    finally:
        os.close(pidfd)


async def test_the_death_of_the_fork_server_is_noticed(opened: Bubblewrapped) -> None:
    """Whoever waits is told, and further requests fail with a reason."""
    pod = await opened.create("pod")
    container = await pod.start(shell("exec sleep 1000"), Heard())
    os.kill(opened.fork_server.pid, signal.SIGKILL)
    await asyncio.wait_for(opened.died, 20)
    assert (await asyncio.wait_for(container.wait(), 20)).code == 137
    with pytest.raises(SandboxError, match="died"):
        await opened.create("next")


async def test_the_check_before_start_really_starts_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds nothing wrong here, and says what is if bubblewrap does not work."""
    assert await sandbox_unavailable(tmp_path, SystemClock()) == []
    other = bwrap.Bubblewrap(Path("/usr/bin/ls"), None)
    monkeypatch.setattr(bwrap, "find", lambda: other)
    (reason,) = await sandbox_unavailable(tmp_path, SystemClock())
    assert "cannot be set up" in reason
    assert "ls" in reason or "--args" in reason


async def test_limits_hold_where_the_machine_lets_us_set_them(opened: Bubblewrapped) -> None:
    """A container beyond its memory is killed and says why; the machine does not notice."""
    if opened.limits_unenforced is not None:
        pytest.skip(f"limits are not enforced here: {opened.limits_unenforced}")
    pod = await opened.create("pod")
    script = "head -c 200000000 /dev/zero | tail -c 150000000 > /dev/null"
    exited, _, _ = await run(pod, shell(script, memory_bytes=32 * 1024 * 1024, cpu=0.5))
    assert exited.oom_killed
    exited, _, _ = await run(pod, shell("exit 0", memory_bytes=32 * 1024 * 1024))
    assert exited == Exit(0)
