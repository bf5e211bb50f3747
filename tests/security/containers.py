"""What the tests here share: a kubelet's sandboxes, and running a command in one to its end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.kubelet.container import (
    ContainerSpec,
    Exit,
    HostRoot,
    SandboxError,
)
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped, PodSandbox


@dataclass
class Heard:
    """A log that is kept in memory."""

    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)

    def write(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        getattr(self, stream).extend(data)

    def flush(self) -> None:
        return

    def close(self) -> None:
        return


@contextlib.asynccontextmanager
async def sandboxes(directory: Path) -> AsyncIterator[Bubblewrapped]:
    try:
        opened = await Bubblewrapped.open(directory, SystemClock())
    except SandboxError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no containers on this machine: {error}")
    try:
        yield opened
    finally:
        await opened.close()


def shell(script: str, **changes: object) -> ContainerSpec:
    """Describe a container of image `host` that runs a shell script."""
    argv = ("/bin/sh", "-c", script)
    return ContainerSpec("pod", "main", 0, HostRoot(), argv, **changes)  # type: ignore[arg-type]  # fields of the spec


async def run(pod: PodSandbox, spec: ContainerSpec) -> tuple[Exit, bytes, bytes]:
    heard = Heard()
    exited = await (await pod.start(spec, heard)).wait()
    return exited, bytes(heard.stdout), bytes(heard.stderr)


async def execute(
    container: Container, *argv: str, tty: bool = False, env: dict[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    program = await container.exec(argv, tty=tty, env=env)
    try:
        out = bytearray()
        err = bytearray()
        while data := await program.read("stdout"):
            out += data
        while data := await program.read("stderr"):
            err += data
        return await program.wait(), bytes(out), bytes(err)
    finally:
        await program.close()
