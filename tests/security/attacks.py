"""What a hostile tenant tries, run inside a container: prints one JSON object, attempt → outcome.

Standard library only, and no import of ours: it runs with the machine's own interpreter.
"""

# Plain system calls are the point here.
# ruff: noqa: PTH102, PTH123, PTH208, SIM115

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import sys
import termios
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def syscall(number: int, *arguments: object) -> str:
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        return errno.errorcode[ctypes.get_errno()]
    return "done"


def attempt(call: Callable[[], object]) -> str:
    try:
        answer = call()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "OSError")
    except Exception as error:  # noqa: BLE001  any other outcome is one to report
        return type(error).__name__
    return answer if isinstance(answer, str) else "done"


def readable(path: str) -> str:
    with open(path, "rb") as file:
        file.read(1)
    return "done"


def connect(host: str, port: int) -> str:
    with socket.socket() as client:
        client.settimeout(2)
        client.connect((host, port))
    return "done"


def abstract(name: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + name)
    return "done"


def type_into_terminal() -> str:
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSTI, b"x")
    finally:
        os.close(master)
        os.close(slave)
    return "done"


def raise_limit(which: int) -> str:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (hard + 1, hard + 1))
    return "done"


def others() -> str:
    """Count processes that are not this tenant's own."""
    mine = 0
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with open(f"/proc/{entry}/status") as file:
                status = file.read()
            assert "\nUid:\t1000\t" in status, status
            mine += 1
    return "none" if mine <= 6 else f"{mine} processes"


def secrets_in_memory() -> str:
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            for name in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{entry}/{name}", "rb") as file:
                        if b"BOILERHOUSE_TEST_SECRET" in file.read():
                            return f"found in {entry}/{name}"
                except OSError:
                    continue
    return "none"


def nr(x86: int, arm: int) -> int:
    return x86 if X86 else arm


def kill_init() -> str:
    os.kill(1, signal.SIGKILL)
    os.kill(1, 0)
    return "still there"


def main(given: dict[str, str]) -> dict[str, str]:
    new_user = 0x10000000
    host_port = int(given["host_port"])
    tries: dict[str, Callable[[], object]] = {
        "read the machine's password hashes": lambda: readable("/etc/shadow"),
        "read the data directory": lambda: os.listdir(given["data"]) and "done",
        "read another tenant's volume": lambda: os.listdir(given["other_volume"]) and "done",
        "read root's home": lambda: os.listdir("/root") and "done",
        "read /sys": lambda: os.listdir("/sys") and "done",
        "read kernel memory": lambda: readable("/proc/kcore"),
        "write a sysctl": lambda: open("/proc/sys/kernel/hostname", "w").write("x") and "done",
        "write sysrq": lambda: open("/proc/sysrq-trigger", "w").write("h") and "done",
        "write the machine's programs": lambda: open("/usr/bin/evil", "w").write("x") and "done",
        "write the root directory": lambda: os.mkdir("/evil"),
        "write /etc": lambda: open("/etc/passwd", "a").write("x") and "done",
        "write /dev": lambda: open("/dev/evil", "w").write("x") and "done",
        "make a device": lambda: os.mknod("/tmp/dev", 0o20666, os.makedev(1, 1)),
        "become root": lambda: os.setresuid(0, 0, 0),
        "become another user": lambda: os.setresuid(1001, 1001, 1001),
        "see other processes": others,
        "find Boilerhouse's environment": secrets_in_memory,
        "trace pid 1 of the machine": lambda: syscall(
            nr(101, 117), 0x4206, int(given["machine_pid"]), 0, 0
        ),
        "trace pid 1 of the container": lambda: syscall(nr(101, 117), 0x4206, 1, 0, 0),
        "look into pid 1": lambda: os.listdir("/proc/1/fd") and "done",
        "signal a process of the machine": lambda: os.kill(int(given["machine_pid"]), 0),
        "reach the machine's loopback": lambda: connect("127.0.0.1", host_port),
        "reach another tenant": lambda: connect(given["other_address"], 8080),
        "reach the outside": lambda: connect("192.0.2.1", 80),
        "reach an abstract socket": lambda: abstract(given["abstract"]),
        "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
        "open a packet socket": lambda: socket.socket(17, socket.SOCK_RAW, 0).close(),
        "open a vsock": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
        "mount": lambda: syscall(nr(165, 40), b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        "unmount": lambda: syscall(nr(166, 39), b"/tmp", 2),
        "change the root": lambda: syscall(nr(161, 51), b"/tmp"),
        "pivot the root": lambda: syscall(nr(155, 41), b"/", b"/"),
        "open a file system": lambda: syscall(430, b"tmpfs", 0),
        "clone a mount": lambda: syscall(428, -100, b"/", 1),
        "make a user namespace": lambda: syscall(nr(272, 97), new_user),
        "make a mount namespace": lambda: syscall(nr(272, 97), 0x00020000),
        "clone into a user namespace": lambda: syscall(nr(56, 220), new_user | 17, 0, 0, 0, 0),
        "clone3": lambda: syscall(435, None, 0),
        "enter a namespace": lambda: syscall(nr(308, 268), os.open("/proc/self/ns/pid", 0), 0),
        "load a module": lambda: syscall(nr(313, 273), 0, b"", 0),
        "load a kernel": lambda: syscall(nr(246, 104), 0, 0, 0, 0),
        "load a bpf program": lambda: syscall(nr(321, 280), 0, None, 0),
        "count cycles": lambda: syscall(nr(298, 241), None, 0, -1, -1, 0),
        "handle page faults": lambda: syscall(nr(323, 282), 1),
        "use io_uring": lambda: syscall(425, 1, None),
        "open by handle": lambda: syscall(nr(304, 265), -100, None, 0),
        "read a keyring": lambda: syscall(nr(250, 219), 0, -3, 0),
        "add a key": lambda: syscall(nr(248, 217), b"user", b"k", b"v", 1, -3),
        "request a key": lambda: syscall(nr(249, 218), b"user", b"k", None, 0),
        "read the kernel's log": lambda: syscall(nr(103, 116), 3, None, 0),
        "swap": lambda: syscall(nr(167, 224), b"/tmp/x", 0),
        "reboot": lambda: syscall(nr(169, 142), 0, 0, 0, None),
        "set the clock": lambda: syscall(nr(227, 112), 0, None),
        "rename the machine": lambda: syscall(nr(170, 161), b"evil", 4),
        "change personality": lambda: syscall(nr(135, 92), 0x0400000),
        "use the x32 calls": lambda: syscall(0x40000000 + 39) if X86 else "ENOSYS",
        "type into a terminal": type_into_terminal,
        "raise the file limit": lambda: raise_limit(resource.RLIMIT_NOFILE),
        "raise the process limit": lambda: raise_limit(resource.RLIMIT_NPROC),
        "dump core": lambda: str(resource.getrlimit(resource.RLIMIT_CORE)[1]),
        "change the program of pid 1": lambda: open("/proc/1/exe", "r+b").close(),
        "kill pid 1": kill_init,
    }
    return {name: attempt(call) for name, call in tries.items()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
