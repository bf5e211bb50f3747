"""Block groups of ext4: directories of instances are spread over the disk.

ext4 puts the files of a directory where the directory is, and a directory where its parent is. One
without a journal, as some virtual machines have, does not use the inode of a file that was deleted
within the last minutes: it looks for another one, past all of those, each time. So where many files
come and go below one directory, as they do when instances hibernate and are revived, making a file
takes ten times as long as elsewhere.

A directory that is marked as the top of hierarchies has each of its own directories put somewhere
else on the disk. Other file systems do not know the mark, and do not need it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_LONG = struct.Struct("l")
_TOP = 0x0002_0000  # FS_TOPDIR_FL: `chattr +T`


def _number(direction: int, which: int) -> int:
    return direction << 30 | _LONG.size << 16 | ord("f") << 8 | which


_GET = _number(2, 1)  # FS_IOC_GETFLAGS
_SET = _number(1, 2)  # FS_IOC_SETFLAGS


def spread(directory: Path) -> bool:
    """Have each directory made in this one from now on put somewhere else; False if it is not."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = _LONG.unpack(fcntl.ioctl(opened, _GET, bytes(_LONG.size)))
        if not flags & _TOP:
            fcntl.ioctl(opened, _SET, _LONG.pack(flags | _TOP))
        return True
    except OSError:  # another file system, or somebody else's directory
        return False
    finally:
        os.close(opened)
