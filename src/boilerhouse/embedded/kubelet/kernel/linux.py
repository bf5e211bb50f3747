"""The system calls that Python has no name for: namespaces, mounts, capabilities, seccomp.

    forkserver.py, entering.py, staging.py, netns.py ─► here ─► libc

Each function is one call, raises OSError with the call's name, and knows nothing of what it is for.
Only the standard library may be imported: the fork server runs without site-packages.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_IN_ROOT = 0x10

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_KEYCTL_JOIN_SESSION_KEYRING = 1
_NS_GET_USERNS = 0xB701

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_IDMAP = 0x00100000

# Calls since 5.2 have one number on every architecture; the two older ones do not.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_OPENAT2 = 437
_SYS_MOUNT_SETATTR = 442
_SYS_QUOTACTL_FD = 443  # since Linux 5.14
_SYS_CAPSET, _SYS_KEYCTL = {"x86_64": (126, 250), "aarch64": (91, 219)}.get(
    os.uname().machine, (-1, -1)
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _syscall(call: str, number: int, *arguments: object) -> int:
    return _checked(int(_libc.syscall(ctypes.c_long(number), *arguments)), call)


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    _checked(_libc.prctl(ctypes.c_int(option), *padded), "prctl")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def owner_of(namespace: int) -> int:
    """Return a descriptor of the user namespace that owns a namespace."""
    return _checked(_libc.ioctl(ctypes.c_int(namespace), ctypes.c_ulong(_NS_GET_USERNS)), "ioctl")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind),
        ctypes.c_ulong(flags),
        os.fsencode(options),
    )
    _checked(done, f"mount {kind or 'bind'}")


def mount_mapped(source: int, target: str, user_namespace: int) -> None:
    """Bind a directory with its owners translated by a user namespace (an idmapped mount)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH
    tree = _syscall("open_tree", _SYS_OPEN_TREE, source, b"", ctypes.c_uint(flags))
    try:
        wanted = struct.pack("=QQQQ", _MOUNT_ATTR_IDMAP, 0, 0, user_namespace)
        empty, size = ctypes.c_uint(_AT_EMPTY_PATH), ctypes.c_size_t(len(wanted))
        _syscall("mount_setattr", _SYS_MOUNT_SETATTR, tree, b"", empty, wanted, size)
        place = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
        _syscall("move_mount", _SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), place)
    finally:
        os.close(tree)


def open_beneath(root: int, path: str, flags: int, mode: int = 0, resolve: int = 0) -> int:
    """Open a path as if `root` were the root directory: links cannot lead out of it."""
    how = struct.pack(
        "=QQQ", flags | os.O_CLOEXEC, mode, resolve | RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
    )
    size = ctypes.c_size_t(len(how))
    return _syscall("openat2", _SYS_OPENAT2, root, os.fsencode(path), how, size)


def quotactl(fd: int, command: int, number: int, given: bytearray) -> None:
    """Ask for, or set, a quota of the file system that a descriptor is on."""
    buffer = (ctypes.c_char * len(given)).from_buffer(given)
    which, of = ctypes.c_uint(command), ctypes.c_uint(number)
    _syscall("quotactl", _SYS_QUOTACTL_FD, ctypes.c_uint(fd), which, of, buffer)


def sync_file_system(fd: int) -> None:
    """Write everything that was changed on a file system to the disk."""
    _checked(_libc.syncfs(ctypes.c_int(fd)), "syncfs")


def die_with_parent(parent: int) -> None:
    """Be killed when the thread that forked this process ends; it may have ended already."""
    _prctl(_PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Until the next exec, let nobody without privileges here read or trace this process."""
    _prctl(_PR_SET_DUMPABLE, 0)


def empty_keyring() -> None:
    """Leave the session keyring that was inherited for a new, empty one."""
    _syscall("keyctl", _SYS_KEYCTL, _KEYCTL_JOIN_SESSION_KEYRING, None)


def keep_capabilities() -> None:
    """Carry every capability held now over the next exec."""
    last = _last_capability()
    everything = (1 << (last + 1)) - 1
    _capset(everything, everything, everything)
    for capability in range(last + 1):
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def clear_ambient() -> None:
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities() -> None:
    """Give up every capability, and the means to get one back."""
    clear_ambient()
    for capability in range(_last_capability() + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    _capset(0, 0, 0)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def install_filter(program: bytes) -> None:
    """Install a seccomp filter: an array of `struct sock_filter`."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    holder = ctypes.create_string_buffer(header, len(header))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))


def _capset(effective: int, permitted: int, inheritable: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    low = 0xFFFFFFFF
    sets = (effective, permitted, inheritable)
    data = struct.pack("=6I", *(part & low for part in sets), *(part >> 32 for part in sets))
    _syscall("capset", _SYS_CAPSET, header, data)


_last: int | None = None


def _last_capability() -> int:
    # Read once: after entering a container its /proc is another's, and may say anything.
    global _last
    if _last is None:
        with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:  # noqa: PTH123  no pathlib in the fork server
            _last = int(file.read())
    return _last


def architecture() -> str:
    """Return this machine's architecture, as images and nodes name it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def prepare() -> None:
    """Read what the calls above need from /proc, before /proc can be somebody else's."""
    _last_capability()
    if sys.platform != "linux" or _SYS_CAPSET < 0:
        raise OSError(f"not supported on {sys.platform} {os.uname().machine}")
