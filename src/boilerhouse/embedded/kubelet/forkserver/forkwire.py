"""Messages with descriptors on a socket pair: how the fork server is spoken to, and speaks.

    client.py ◄─► forkserver.py ─► prefork.py

Only the standard library may be imported.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from typing import Any

MESSAGE_LIMIT = 64 * 1024
DESCRIPTOR_LIMIT = 64


def send(channel: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
    """Send one message; what is too long for the socket travels in a memory file."""
    body = json.dumps(message).encode()
    carrier = -1
    if len(body) > MESSAGE_LIMIT:
        carrier = os.memfd_create("bh")
        with open(carrier, "wb", closefd=False) as file:
            file.write(body)
        os.lseek(carrier, 0, os.SEEK_SET)
        body, fds = b"@", [*fds, carrier]
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        channel.sendmsg([body], rights)
    finally:
        if carrier >= 0:
            os.close(carrier)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive one message and its descriptors; None when the other side is gone.

    Where this process has no room for the descriptors the kernel drops them: `truncated` says so.
    """
    space = socket.CMSG_SPACE(DESCRIPTOR_LIMIT * 4)
    body, rights, flags, _ = channel.recvmsg(MESSAGE_LIMIT, space, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    if not body:
        return None
    truncated = bool(flags & socket.MSG_CTRUNC)
    if body == b"@":
        with open(fds.pop(), "rb") as file:  # noqa: PTH123
            body = file.read()
    message: dict[str, Any] = json.loads(body)
    if truncated:
        message["truncated"] = True
    return message, fds
