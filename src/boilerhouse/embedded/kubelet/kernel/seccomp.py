"""The system calls a tenant never needs, as a seccomp filter.

    program(machine) ─► bwrap --seccomp (pid 1) and entering.py (every other process)

The kernel already refuses most of these to a process without capabilities. The filter is the
second wall: it takes the code behind them out of a tenant's reach, bugs included. It is a list of
refusals, not of permissions, so that programs newer than this file keep working. `ptrace` stays
allowed: it reaches only the tenant's own processes, which share one filter (debuggers need it).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

# name: (x86_64, aarch64); None where the architecture has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the tree of mounts
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # files by handle walk around every mount namespace
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # namespaces (making them: see _flagged)
    "setns": (308, 268),
    # the kernel's own code and insides
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kcmp": (312, 272),
    "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    "fanotify_init": (300, 262),
    # keyrings are not bound to namespaces
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # the machine as a whole
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
_CLONE = (56, 220)
_UNSHARE = (272, 97)
_CLONE3 = (435, 435)
_IOCTL = (16, 29)
_PERSONALITY = (135, 92)
_SOCKET = (41, 198)

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; NEWTIME is a flag of unshare only
# (for clone its bit belongs to the exit signal).
_NEW_NAMESPACE = 0x7E020000
_NEW_TIME = 0x80
_TIOCSTI = 0x5412  # types into the terminal
_TIOCLINUX = 0x541C  # pastes into the console
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, 32 bits, old names; a question
_FAMILIES = (0, 1, 2, 10, 16)  # unspecified, unix, inet, inet6, netlink

_LD_ABS = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_RET = 0x06
_NUMBER, _ARCH = 0, 4
_ALLOW = 0x7FFF0000
_KILL = 0x80000000


def program(machine: str) -> bytes:
    """Return the filter as an array of `struct sock_filter`; KeyError for an unknown machine."""
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(machine))


_Step = tuple[int, int, int, int]


def _steps(machine: str) -> Iterator[_Step]:
    which = list(_ARCHITECTURES).index(machine)
    yield _LD_ABS, 0, 0, _ARCH
    # Numbers mean other calls for another architecture (32-bit code on a 64-bit machine).
    yield _JEQ, 1, 0, _ARCHITECTURES[machine]
    yield _RET, 0, 0, _KILL
    yield _LD_ABS, 0, 0, _NUMBER
    if machine == "x86_64":
        yield _JGE, 0, 1, _X32_BIT
        yield _RET, 0, 0, _error(errno.ENOSYS)

    # Its flags are in memory where a filter cannot look; libc falls back to clone on ENOSYS.
    yield _JEQ, 0, 1, _CLONE3[which]
    yield _RET, 0, 0, _error(errno.ENOSYS)
    yield from _flagged(_CLONE[which], _NEW_NAMESPACE)
    yield from _flagged(_UNSHARE[which], _NEW_NAMESPACE | _NEW_TIME)
    yield from _argument(_IOCTL[which], 1, refuse=(_TIOCSTI, _TIOCLINUX))
    yield from _only(_PERSONALITY[which], _PERSONALITIES, errno.EPERM)
    yield from _only(_SOCKET[which], _FAMILIES, errno.EAFNOSUPPORT)
    for numbers in _REFUSED.values():
        number = numbers[which]
        if number is not None:
            yield _JEQ, 0, 1, number
            yield _RET, 0, 0, _error(errno.EPERM)
    yield _RET, 0, 0, _ALLOW


def _flagged(number: int, mask: int) -> list[_Step]:
    """Refuse a call whose first argument has any bit of `mask`."""
    inside = [(_LD_ABS, 0, 0, _low(0)), (_JSET, 0, 1, mask), (_RET, 0, 0, _error(errno.EPERM))]
    return _when(number, [*inside, (_RET, 0, 0, _ALLOW)])


def _argument(number: int, index: int, refuse: Iterable[int]) -> list[_Step]:
    inside: list[_Step] = [(_LD_ABS, 0, 0, _low(index))]
    for value in refuse:
        inside += [(_JEQ, 0, 1, value), (_RET, 0, 0, _error(errno.EPERM))]
    return _when(number, [*inside, (_RET, 0, 0, _ALLOW)])


def _only(number: int, values: Iterable[int], failure: int) -> list[_Step]:
    """Refuse a call unless its first argument is one of `values`."""
    inside: list[_Step] = [(_LD_ABS, 0, 0, _low(0))]
    for value in values:
        inside += [(_JEQ, 0, 1, value), (_RET, 0, 0, _ALLOW)]
    return _when(number, [*inside, (_RET, 0, 0, _error(failure))])


def _when(number: int, inside: list[_Step]) -> list[_Step]:
    # `inside` always returns, so the number need not be loaded again after it.
    return [(_JEQ, 0, len(inside), number), *inside]


def _low(index: int) -> int:
    """Return where the low half of an argument lies (both machines are little endian)."""
    return 16 + 8 * index


def _error(number: int) -> int:
    return 0x00050000 | number
