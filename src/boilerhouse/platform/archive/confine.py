"""What the worker may do: less than the process that started it.

    become, override ─► die_with_parent ─► landlock

An archive and a tenant's tree are both hostile. What keeps them in is how they are walked and
written (tree.py, walk.py): that holds on every kernel. Here are the second walls, for the case
that the first has a hole: the tenant's own uid where root restores for one, and Landlock where the
kernel has it (5.19): then nothing outside the overlays can be opened, for reading or writing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from itertools import chain, repeat

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
# Access to files, by the version that brought it.
_FIRST = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG, _MAKE_FIFO, _MAKE_SYM = 1 << 7, 1 << 8, 1 << 10, 1 << 12
READ = _READ_FILE | _READ_DIR
WRITE = (
    READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO
    | _MAKE_SYM | _REFER | _TRUNCATE
)  # fmt: skip


def become(uid: int, gid: int) -> None:
    """Be another user from now on, with no privileges."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def override() -> bool:
    """As an ordinary user, be able to read and write all of one's own files, whatever their modes.

    In a user namespace of its own a process has that capability over what belongs to its user.
    False where none can be made: modes count then, and what cannot be read is named.
    """
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(ctypes.c_int(_CLONE_NEWUSER)):
        return False
    # Who has changed its user owns its own /proc only while others may look at it, too.
    _libc.prctl(ctypes.c_int(_PR_SET_DUMPABLE), ctypes.c_ulong(1), 0, 0, 0)
    for name, text in (
        ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1"),
    ):  # fmt: skip
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, text.encode())
        os.close(file)
    _libc.prctl(ctypes.c_int(_PR_SET_DUMPABLE), ctypes.c_ulong(0), 0, 0, 0)
    return True


def die_with_parent(parent: int) -> None:
    """Be killed when the process that started this one ends; it may have ended already."""
    _libc.prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(9), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def landlock(directories: Iterable[int], allowed: int, within: Iterable[int] = ()) -> bool:
    """Let nothing be opened from now on but what is below these; False where there is no Landlock.

    `within`: directories that lie deep in those. Landlock goes up from whatever is opened until it
    has met every right that may be asked for, to the root if need be: with 25,000 levels that is
    minutes. So these have the two as well that an opening asks for besides, cutting files (with
    which nothing can be written) and device control. Each is open until the next is asked for.

    Its first version knows no links between directories, so it is not used.
    """
    version = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION)
    )
    if version < 2:
        return False
    handled = _FIRST | _REFER
    handled |= _TRUNCATE if version >= 3 else 0
    handled |= _IOCTL if version >= 5 else 0
    wanted = struct.pack("=Q", handled)
    rules = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET), wanted, ctypes.c_size_t(len(wanted)), ctypes.c_uint(0)
    )
    _checked(rules, "landlock_create_ruleset")
    rights = allowed & handled
    besides = (allowed | _TRUNCATE | _IOCTL) & handled
    for directory, access in chain(zip(directories, repeat(rights)), zip(within, repeat(besides))):
        rule = struct.pack("=Qi", access, directory)
        added = _libc.syscall(
            ctypes.c_long(_ADD_RULE), ctypes.c_int(rules), _PATH_BENEATH, rule, ctypes.c_uint(0)
        )
        _checked(added, "landlock_add_rule")
    _checked(_libc.prctl(ctypes.c_int(_PR_SET_NO_NEW_PRIVS), ctypes.c_ulong(1), 0, 0, 0), "prctl")
    done = _libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(rules), ctypes.c_uint(0))
    _checked(done, "landlock_restrict_self")
    os.close(rules)
    return True


def _checked(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
