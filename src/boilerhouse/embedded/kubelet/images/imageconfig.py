"""What an image says about itself: program, environment, user, ports.

config blob ─► read_config ─► ImageConfig ─► the pod layer's ContainerSpec
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.images.layers import BadImage
from boilerhouse.embedded.kubelet.kernel import linux

_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImageConfig:
    layers: tuple[str, ...]  # sha256 of each unpacked layer, lowest first
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    user: str = ""
    workdir: str = "/"
    ports: tuple[int, ...] = ()
    stop_signal: str | None = None


def read_config(content: bytes) -> ImageConfig:
    """Read an image's configuration; raises `BadImage`."""
    try:
        document = json.loads(content)
        return _config(document, document.get("config") or {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadImage(f"the image's configuration is malformed: {error!r}") from error


def _config(document: dict[str, Any], config: dict[str, Any]) -> ImageConfig:
    layers = []
    for digest in document["rootfs"]["diff_ids"]:
        algorithm, _, value = str(digest).partition(":")
        if algorithm != "sha256" or len(value) != 64 or not value.isalnum():
            raise BadImage(f"the layer digest {digest!r} is not a sha256")
        layers.append(value)
    environment = []
    for entry in config.get("Env") or ():
        name, _, value = str(entry).partition("=")
        environment.append((name, value))
    ports = sorted(
        int(port.partition("/")[0])
        for port in config.get("ExposedPorts") or ()
        if not port.endswith(("/udp", "/sctp"))
    )
    return ImageConfig(
        layers=tuple(layers),
        entrypoint=_words(config.get("Entrypoint")),
        cmd=_words(config.get("Cmd")),
        env=tuple(environment),
        user=str(config.get("User") or ""),
        workdir=str(config.get("WorkingDir") or "/"),
        ports=tuple(ports),
        stop_signal=config.get("StopSignal"),
    )


def _words(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError("a command is a list of words")
    return tuple(str(word) for word in value)


def resolve_user(user: str, layers: Sequence[Path]) -> tuple[int, int]:
    """Return uid and gid inside for an image's USER: numbers, or names of its /etc/passwd."""
    who, _, group = user.partition(":")
    uid, gid = 0, 0
    if who.isdecimal():
        uid = int(who)
        known = [row for row in _rows(layers, "etc/passwd") if row[2:3] == [who]]
        gid = _number(known[0][3]) if known and len(known[0]) > 3 else 0
    elif who:
        known = [row for row in _rows(layers, "etc/passwd") if row[0] == who and len(row) > 3]
        if not known:
            raise SandboxError(f"the image's user {who!r} is not in its /etc/passwd")
        uid, gid = _number(known[0][2]), _number(known[0][3])
    if group.isdecimal():
        gid = int(group)
    elif group:
        groups = [row for row in _rows(layers, "etc/group") if row[0] == group and len(row) > 2]
        if not groups:
            raise SandboxError(f"the image's group {group!r} is not in its /etc/group")
        gid = _number(groups[0][2])
    if max(uid, gid) >= 2**31:
        raise SandboxError(f"the image's user {user!r} is out of range")
    return uid, gid


def _number(text: str) -> int:
    if not text.isdecimal():
        raise SandboxError(f"the image's /etc/passwd or /etc/group has {text!r} for a number")
    return int(text)


def _rows(layers: Sequence[Path], name: str) -> list[list[str]]:
    """Read a colon-separated file as the topmost layer that has it shows it."""
    for layer in reversed(layers):
        root = os.open(layer, os.O_PATH | os.O_DIRECTORY)
        try:
            fd = linux.open_beneath(root, name, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        finally:
            os.close(root)
        with os.fdopen(fd, "rb") as file:
            text = file.read(_FILE_BYTES).decode(errors="replace")
        return [line.split(":") for line in text.splitlines() if line.strip()]
    return []
