"""A hostile tenant tries everything it can think of; each attempt and how it must end.

The attempts run inside a container (attacks.py), once as its own process and once by exec, since
these are two ways in and must be equally narrow.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from boilerhouse.embedded.kubelet.container import Mount
from tests.security.containers import Heard, execute, run, sandboxes, shell

ATTACKS = Path(__file__).with_name("attacks.py")
PYTHON = "/usr/bin/python3"

# Several where the kernel's own refusal comes before or instead of the filter's.
EXPECTED: dict[str, set[str]] = {
    "read the machine's password hashes": {"ENOENT"},
    "read the data directory": {"ENOENT"},
    "read another tenant's volume": {"ENOENT"},
    "read root's home": {"ENOENT"},
    "read /sys": {"ENOENT"},
    "read kernel memory": {"EACCES", "EPERM", "ENOENT"},
    "write a sysctl": {"EACCES", "EROFS"},
    "write sysrq": {"EACCES", "EROFS", "EPERM", "ENOENT"},
    "write the machine's programs": {"EROFS", "EACCES"},
    "write the root directory": {"EROFS"},
    "write /etc": {"EROFS"},
    "write /dev": {"EROFS"},
    "make a device": {"EPERM"},
    "become root": {"EINVAL", "EPERM"},
    "become another user": {"EINVAL", "EPERM"},
    "see other processes": {"none"},
    "find Boilerhouse's environment": {"none"},
    "trace pid 1 of the machine": {"ESRCH", "EPERM"},
    "trace pid 1 of the container": {"EPERM"},
    "look into pid 1": {"EACCES"},
    "signal a process of the machine": {"ESRCH", "EPERM"},
    "reach the machine's loopback": {"ECONNREFUSED"},
    "reach another tenant": {"ECONNREFUSED"},
    "reach the outside": {"ENETUNREACH"},
    "reach an abstract socket": {"ECONNREFUSED"},
    "open a raw socket": {"EPERM"},
    "open a packet socket": {"EAFNOSUPPORT"},
    "open a vsock": {"EAFNOSUPPORT"},
    "clone3": {"ENOSYS"},
    "use the x32 calls": {"ENOSYS"},
    "raise the file limit": {"ValueError", "EPERM"},
    "raise the process limit": {"ValueError", "EPERM"},
    "dump core": {"0"},
    "change the program of pid 1": {"ETXTBSY", "EPERM", "EACCES"},
    "kill pid 1": {"still there"},
    **{
        name: {"EPERM"}
        for name in (
            "mount",
            "unmount",
            "change the root",
            "pivot the root",
            "open a file system",
            "clone a mount",
            "make a user namespace",
            "make a mount namespace",
            "clone into a user namespace",
            "enter a namespace",
            "load a module",
            "load a kernel",
            "load a bpf program",
            "count cycles",
            "handle page faults",
            "use io_uring",
            "open by handle",
            "read a keyring",
            "add a key",
            "request a key",
            "read the kernel's log",
            "swap",
            "reboot",
            "set the clock",
            "rename the machine",
            "change personality",
            "type into a terminal",
        )
    },
}


async def _attack(directory: Path) -> dict[str, dict[str, str]]:
    os.environ["BOILERHOUSE_TEST_SECRET"] = "s3cret"
    volume = directory / "data" / "other"
    volume.mkdir(parents=True)
    (volume / "file").write_text("private")
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as hidden:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        name = f"boilerhouse-test-{os.getpid()}"
        hidden.bind("\0" + name)
        hidden.listen()
        async with sandboxes(directory / "data") as opened:
            other = await opened.create("other")
            other.own(volume)
            script = f"exec {PYTHON} -m http.server 8080"
            if not Path(PYTHON).exists():  # noqa: ASYNC240
                pytest.skip(f"the attempts need {PYTHON} on this machine")
            await other.start(
                replace(shell(script), pod_uid="other", mounts=(Mount(volume, "/mnt"),)), Heard()
            )
            await _reachable(other.connect)
            pod = await opened.create("pod")
            given = json.dumps(
                {
                    "data": str(directory / "data"),
                    "other_volume": str(volume),
                    "other_address": other.address,
                    "host_port": str(listener.getsockname()[1]),
                    "abstract": name,
                    "machine_pid": str(os.getpid()),
                }
            )
            attacks = (Mount(ATTACKS, "/attacks.py", read_only=True),)
            spec = replace(shell(""), argv=(PYTHON, "/attacks.py", given), mounts=attacks)
            _, out, err = await run(pod, spec)
            assert out, err.decode()
            idle = await pod.start(replace(shell("exec sleep 1000"), mounts=attacks), Heard())
            code, by_exec, err = await execute(idle, PYTHON, "/attacks.py", given)
            assert code == 0, err.decode()
    return {"start": json.loads(out), "exec": json.loads(by_exec)}


async def _reachable(connect: Callable[[int], Awaitable[socket.socket]]) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                (await connect(8080)).close()
                return
            except OSError:
                await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    yield asyncio.run(_attack(tmp_path_factory.mktemp("walls")))


@pytest.mark.parametrize("way", ["start", "exec"])
@pytest.mark.parametrize("attempt", sorted(EXPECTED))
def test_a_tenant_cannot(outcomes: dict[str, dict[str, str]], attempt: str, way: str) -> None:
    """Each attempt ends in the refusal expected, on both ways into a container."""
    assert outcomes[way][attempt] in EXPECTED[attempt]


def test_every_attempt_has_an_expected_end(outcomes: dict[str, dict[str, str]]) -> None:
    """An attempt added without saying how it must end is noticed."""
    assert set(outcomes["start"]) == set(EXPECTED)
