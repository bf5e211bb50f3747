"""A Pod's network: the way in, the way out, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.network.uplink import Uplink
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox
from tests.security.containers import Heard, run, sandboxes, shell

PYTHON = Path("/usr/bin/python3")
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"the servers here need {PYTHON}")

IPV6 = Path("/proc/net/if_inet6").exists()

ECHO = """
import socket, sys, threading
listener = socket.create_server((sys.argv[2], 8080), backlog=64)
print("up", flush=True)
def serve(client):
    client.sendall(sys.argv[1].encode())
    while data := client.recv(65536):
        client.sendall(data)
    client.sendall(b"<end>")
    client.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Bubblewrapped]:
    async with sandboxes(tmp_path / "data") as made:
        yield made


async def serve(opened: Bubblewrapped, name: str, bind: str = "0.0.0.0") -> PodSandbox:
    pod = await opened.create(name)
    heard = Heard()
    argv = (str(PYTHON), "-c", ECHO, f"I am {name};", bind)
    await pod.start(replace(shell(""), pod_uid=name, argv=argv), heard)
    async with asyncio.timeout(20):
        while b"up" not in heard.stdout:
            assert not heard.stderr, heard.stderr
            await asyncio.sleep(0.005)
    return pod


async def test_two_tenants_on_one_port_are_both_reached(opened: Bubblewrapped) -> None:
    """Each answers at its own address, on the port that both listen on."""
    for name in ("one", "two"):
        pod = await serve(opened, name)
        places = await pod.forward([8080])
        assert places == {8080: (pod.address, 8080)}
        reader, writer = await asyncio.open_connection(*places[8080])
        assert await reader.readexactly(9) == f"I am {name};".encode()
        writer.close()


async def test_a_half_closed_connection_still_brings_the_answer(opened: Bubblewrapped) -> None:
    """The client's end of input passes through; what comes back afterwards arrives."""
    pod = await serve(opened, "one")
    reader, writer = await asyncio.open_connection(*(await pod.forward([8080]))[8080])
    writer.write(b"hello")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 20) == b"I am one;hello<end>"
    writer.close()


async def test_megabytes_pass_in_both_directions_at_once(opened: Bubblewrapped) -> None:
    """Large transfers are carried whole, and a slow reader slows the sender, not the machine."""
    pod = await serve(opened, "one")
    reader, writer = await asyncio.open_connection(*(await pod.forward([8080]))[8080])
    sent = os.urandom(5_000_000)

    async def feed() -> None:
        writer.write(sent)
        await writer.drain()
        writer.write_eof()

    feeding = asyncio.create_task(feed())
    got = await asyncio.wait_for(reader.read(), 60)
    await feeding
    wanted = b"I am one;" + sent + b"<end>"
    assert len(got) == len(wanted)
    same = got == wanted  # apart: pytest would be hours about the difference
    assert same
    writer.close()


async def test_a_port_nobody_listens_on_resets_the_client(opened: Bubblewrapped) -> None:
    """The client sees a refusal, not an empty success."""
    pod = await opened.create("quiet")
    reader, _ = await asyncio.open_connection(*(await pod.forward([9999]))[9999])
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), 20)
    with pytest.raises(ConnectionRefusedError):
        await pod.connect(9999)


async def test_what_listens_on_localhost_only_stays_private(opened: Bubblewrapped) -> None:
    """As on a cluster, 127.0.0.1 inside is for the Pod itself."""
    pod = await serve(opened, "private", bind="127.0.0.1")
    with pytest.raises(ConnectionRefusedError):
        await pod.connect(8080)


async def test_a_taken_port_is_replaced_by_another(opened: Bubblewrapped) -> None:
    """If the address and port are somebody else's, the place told has another port that works."""
    pod = await serve(opened, "one")
    with socket.create_server((pod.address, 8080)):
        host, port = (await pod.forward([8080]))[8080]
        assert (host, port != 8080) == (pod.address, True)
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.readexactly(9) == b"I am one;"
        writer.close()


async def test_closing_a_pod_closes_its_door(opened: Bubblewrapped) -> None:
    """After the end nobody listens at the address, and open connections are gone."""
    pod = await serve(opened, "one")
    host, port = (await pod.forward([8080]))[8080]
    reader, writer = await asyncio.open_connection(host, port)
    await reader.readexactly(9)
    await pod.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    writer.close()


async def test_containers_of_one_pod_share_the_network(opened: Bubblewrapped) -> None:
    """A second container reaches the first by localhost."""
    pod = await serve(opened, "one")
    script = "import socket; print(socket.create_connection(('127.0.0.1', 8080)).recv(99))"
    argv = (str(PYTHON), "-c", script)
    exited, out, err = await run(pod, replace(shell(""), name="second", argv=argv))
    assert (exited.code, out) == (0, b"b'I am one;'\n"), err


async def test_the_host_name_resolves_to_the_pods_address(opened: Bubblewrapped) -> None:
    """A Pod knows its own name and address."""
    pod = await opened.create("one")
    spec = shell("hostname; getent hosts inst-1", hostname="inst-1")
    _, out, _ = await run(pod, spec)
    assert out.decode().split() == ["inst-1", pod.address, "inst-1"]


REACHING = """
import socket, sys
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as one:
            one.settimeout(5)
            try:
                one.connect((address, 80))
                print(address, "reached")
            except OSError as error:
                print(address, type(error).__name__)
"""


async def test_no_cloud_hands_its_secrets_to_a_pod(opened: Bubblewrapped) -> None:
    """The metadata services of the large clouds are prohibited; other addresses have no route."""
    closed = [
        *("169.254.169.254", "169.254.170.2", "169.254.0.23", "169.254.42.42"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192", "192.80.8.124"),
    ]
    if IPV6:
        closed += ["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"]
    pod = await opened.create("pod")
    argv = (str(PYTHON), "-c", REACHING, *closed, "192.0.0.193", "100.100.100.201")
    _, out, err = await run(pod, replace(shell(""), argv=argv))
    answers = [line.split() for line in out.decode().splitlines()]
    assert not err
    assert {word for address, word in answers if address in closed} == {"PermissionError"}, answers
    assert {word for address, word in answers if address not in closed} == {"OSError"}


async def test_unrestricted_without_the_program_is_refused(
    opened: Bubblewrapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names what would do; no Pod with less network than asked for is made."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="slirp4netns, or pasta"):
        await opened.create("pod", network="unrestricted")


def only(program: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one of the programs be all that is installed; skip if it is not."""
    if shutil.which(program) is None or not os.access("/dev/net/tun", os.W_OK):
        pytest.skip(f"needs {program} and the right to open /dev/net/tun")
    for name in (program, "setpriv"):
        found = shutil.which(name)
        if found is not None:
            (directory / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(directory))


@pytest.mark.parametrize("program", ["slirp4netns", "pasta"])
async def test_a_way_out_that_fails_says_why(
    program: str, opened: Bubblewrapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the program complained of is in the error, and no sandbox is left."""
    only(program, tmp_path, monkeypatch)
    with pytest.raises(SandboxError, match=f"{program} failed: .+"):
        await Uplink.start(os.open("/dev/null", os.O_RDONLY), None)


@pytest.mark.parametrize("program", ["slirp4netns", "pasta"])
async def test_unrestricted_reaches_out_but_not_the_machines_loopback(
    program: str, opened: Bubblewrapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a route and a resolver; 127.0.0.1 of the machine and cloud metadata are closed."""
    only(program, tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        pod = await opened.create("pod", network="unrestricted")
        script = f"""
import socket
import sys
def outcome(host, port):
    try:
        socket.create_connection((host, port), timeout=3).close()
        return "connected"
    except OSError as error:
        return type(error).__name__
print(open("/proc/net/route").read().count("tap0") > 0)
print("10.0.2.3" in open("/etc/resolv.conf").read())
print(outcome("127.0.0.1", {port}))
print(outcome("10.0.2.2", {port}))
for address in ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192"):
    print(outcome(address, 80))
"""
        _, out, err = await run(pod, replace(shell(""), argv=(str(PYTHON), "-c", script)))
        assert out.decode().split()[:3] == ["True", "True", "ConnectionRefusedError"], err
        assert out.decode().split()[3] != "connected"
        assert out.decode().split()[4:] == ["PermissionError"] * 4


@pytest.mark.parametrize("program", ["slirp4netns", "pasta"])
async def test_unrestricted_reaches_other_machines(
    program: str, opened: Bubblewrapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that is not the machine's loopback is reached: here one of its own."""
    only(program, tmp_path, monkeypatch)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.9", 9))  # nothing is sent; the kernel names the address to use
        except OSError:
            pytest.skip("this machine has no network")
        address = asking.getsockname()[0]
    with socket.create_server((address, 0)) as listener:
        pod = await opened.create("pod", network="unrestricted")
        script = f"import socket; socket.create_connection({listener.getsockname()[:2]}, timeout=5)"
        exited, _, err = await run(pod, replace(shell(""), argv=(str(PYTHON), "-c", script)))
        assert exited.code == 0, err


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.sandbox import Bubblewrapped

async def main():
    opened = await Bubblewrapped.open(Path(sys.argv[1]), SystemClock())
    pod = await opened.create("pod", network="unrestricted")
    print(pod._uplink._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("program", ["slirp4netns", "pasta"])
async def test_the_way_out_ends_with_us(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at any moment, we leave no process behind."""
    only(program, tmp_path, monkeypatch)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, str(tmp_path / "data")), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(child.communicate(), 60)
    number = int(said)
    async with asyncio.timeout(10):
        while not _ended(number):  # noqa: ASYNC110  nobody tells of another's child
            await asyncio.sleep(0.01)


def _ended(number: int) -> bool:
    """Whether a process is gone, or waits to be buried by whoever it was left to."""
    try:
        state = Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return True
    return state.rpartition(")")[2].split()[0] == "Z"
