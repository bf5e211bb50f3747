"""A node that runs no processes: commands are functions, logs are lists of lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream

Body = dict[str, Any]
Program = Callable[[Socket, list[str]], Awaitable[int]]


def _status(code: int) -> bytes:
    if code == 0:
        return b"\x03" + msgspec.json.encode({"status": "Success"})
    causes = [{"reason": "ExitCode", "message": str(code)}]
    body = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return b"\x03" + msgspec.json.encode(body)


async def echo(socket: Socket, argv: list[str]) -> int:
    await socket.send(b"\x01" + " ".join(argv[1:]).encode() + b"\n")
    return 0


async def cat(socket: Socket, argv: list[str]) -> int:
    """Give back what comes in, until the end of it."""
    while (message := await socket.receive()) is not None:
        if message[:1] == b"\xff":
            return 0
        if message[:1] == b"\x00":
            await socket.send(b"\x01" + message[1:])
    return 0


async def flood(socket: Socket, argv: list[str]) -> int:
    for _ in range(64):
        await socket.send(b"\x01" + b"x" * 65536)
    await socket.send(b"\x02done\n")
    return 3


async def hang(socket: Socket, argv: list[str]) -> int:
    await socket.send(b"\x01begun\n")
    await asyncio.Event().wait()
    return 0


async def missing(socket: Socket, argv: list[str]) -> int:
    """As the runtime of a real node says it: an error, not an exit code."""
    raise ApiError('error executing command: exec: "nope": executable file not found in $PATH')


HELLO = Reply(200, b"hello", {"content-type": "text/plain"})


@dataclass
class PretendedNode:
    programs: dict[str, Program] = field(
        default_factory=lambda: {
            "echo": echo, "cat": cat, "flood": flood, "hang": hang, "env": echo,
        }
    )  # fmt: skip
    lines: list[str] = field(default_factory=lambda: ["one", "two", "three"])
    last_life: list[str] = field(default_factory=list)  # what `previous` is answered with
    running: int = 0
    queries: list[tuple[tuple[str, str], ...]] = field(default_factory=list)
    asked: list[tuple[str, str, Request]] = field(default_factory=list)  # port, path, by proxy
    page: Reply = HELLO
    page_waits: asyncio.Event | None = None  # before the end of its answer

    async def logs(self, pod: Body, request: Request) -> Reply | Stream:
        self.queries.append(request.query)
        tail = request.param("tailLines")
        written = self.last_life if request.param("previous") == "true" else self.lines
        lines = written[-int(tail) :] if tail and int(tail) else written

        async def pieces() -> AsyncIterator[bytes]:
            self.running += 1
            try:
                for line in lines:
                    yield f"{line}\n".encode()
                if request.param("follow"):
                    await asyncio.Event().wait()
            finally:
                self.running -= 1

        return Stream(200, pieces(), {"content-type": "text/plain"})

    async def proxy(self, pod: Body, port: str, path: str, request: Request) -> Reply | Stream:
        self.asked.append((port, path, request))

        async def pieces() -> AsyncIterator[bytes]:
            yield self.page.body
            if self.page_waits is not None:
                await self.page_waits.wait()

        return Stream(self.page.status, pieces(), self.page.headers)

    async def open(
        self, pod: Body, subresource: str, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        argv = request.params("command")
        self.queries.append(request.query)

        async def run(socket: Socket) -> None:
            program = self.programs.get(argv[0]) if argv else cat
            self.running += 1
            try:
                if program is None:
                    await socket.send(f"\x02{argv[0]}: command not found\n".encode())
                    await socket.send(_status(127))
                    return
                try:
                    code = await program(socket, argv)
                except ApiError as error:
                    await socket.send(b"\x03" + msgspec.json.encode(error.to_status()))
                else:
                    await socket.send(_status(code))
            finally:
                self.running -= 1

        return Session("v5.channel.k8s.io", run)
