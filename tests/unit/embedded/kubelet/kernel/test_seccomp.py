"""The seccomp filter, run by a small interpreter of its own language."""

from __future__ import annotations

import errno
import struct

import pytest

from boilerhouse.embedded.kubelet.kernel import pause, seccomp

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = 0x7FFF0000
KILL = 0x80000000


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """Run the filter on a call as the kernel would."""
    data = struct.pack("=IIQ", number, ARCH[machine] if arch is None else arch, 0)
    data += struct.pack("=6Q", *(arguments + (0,) * 6)[:6])
    program = seccomp.program(machine)
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, yes, no, constant = steps[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x06:
            return int(constant)
        elif code == 0x15:
            at += yes if value == constant else no
        elif code == 0x35:
            at += yes if value >= constant else no
        elif code == 0x45:
            at += yes if value & constant else no
        else:
            raise AssertionError(f"unknown instruction {code:#x}")


def refused(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("machine", ARCH)
def test_ordinary_calls_pass(machine: str) -> None:
    """Whatever is not listed is allowed, numbers from the future included."""
    ordinary = {"x86_64": (0, 1, 9, 57, 59, 101, 257), "aarch64": (63, 64, 222, 221, 117, 56)}
    for number in (*ordinary[machine], 999):
        assert verdict(machine, number) == ALLOW


@pytest.mark.parametrize("machine", ARCH)
def test_every_listed_call_is_refused(machine: str) -> None:
    """Each entry of the list leads to EPERM on the architectures that have it."""
    which = list(ARCH).index(machine)
    for numbers in seccomp._REFUSED.values():
        number = numbers[which]
        if number is not None:
            assert verdict(machine, number, 1, 2, 3) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", ARCH)
def test_threads_and_forks_pass_and_namespaces_do_not(machine: str) -> None:
    """clone is judged by its flags; clone3, whose flags cannot be seen, is not there."""
    which = list(ARCH).index(machine)
    clone, unshare = seccomp._CLONE[which], seccomp._UNSHARE[which]
    assert verdict(machine, clone, 0x3D0F00) == ALLOW  # a thread
    assert verdict(machine, clone, 17) == ALLOW  # a fork
    for flag in (17, 25, 26, 27, 28, 29, 30):
        assert verdict(machine, clone, 1 << flag | 17) == refused(errno.EPERM)
        assert verdict(machine, unshare, 1 << flag) == refused(errno.EPERM)
    assert verdict(machine, unshare, 0x80) == refused(errno.EPERM)
    assert verdict(machine, unshare, 0x400) == ALLOW  # files
    assert verdict(machine, 435) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", ARCH)
def test_arguments_decide_for_terminals_families_and_personalities(machine: str) -> None:
    """Only the dangerous values are refused, whatever the unused upper half holds."""
    which = list(ARCH).index(machine)
    ioctl = seccomp._IOCTL[which]
    assert verdict(machine, ioctl, 0, 0x5413) == ALLOW
    assert verdict(machine, ioctl, 0, 0x5412) == refused(errno.EPERM)
    assert verdict(machine, ioctl, 0, 0x5412 | 1 << 40) == refused(errno.EPERM)
    assert verdict(machine, seccomp._SOCKET[which], 2) == ALLOW
    assert verdict(machine, seccomp._SOCKET[which], 40) == refused(errno.EAFNOSUPPORT)
    assert verdict(machine, seccomp._PERSONALITY[which], 0xFFFFFFFF) == ALLOW
    assert verdict(machine, seccomp._PERSONALITY[which], 0x400000) == refused(errno.EPERM)


def test_other_architectures_and_x32_are_closed() -> None:
    """32-bit code is killed, x32 numbers do not exist."""
    assert verdict("x86_64", 4, arch=0x40000003) == KILL
    assert verdict("aarch64", 4, arch=ARCH["x86_64"]) == KILL
    assert verdict("x86_64", 0x40000000 | 39) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", ARCH)
def test_pid_1_is_an_executable_of_its_machine(machine: str) -> None:
    """The header names the machine, and its one segment holds the whole file and the entry."""
    program = pause.program(machine)
    assert program[:4] == b"\x7fELF"
    kind, which = struct.unpack_from("<HH", program, 16)
    (entry,) = struct.unpack_from("<Q", program, 24)
    offset, address, _, size = struct.unpack_from("<QQQQ", program, 64 + 8)
    assert (kind, which) == (2, {"x86_64": 62, "aarch64": 183}[machine])
    assert (offset, size) == (0, len(program))
    assert entry - address == 64 + 56
