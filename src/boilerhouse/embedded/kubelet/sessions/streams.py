"""exec and attach over WebSocket channels: a command's streams, its terminal, its exit code.

    open() ─► Session(v5 | v4) ─► run(socket) ─► Running.exec ─► channels 0..4, 255

Each message begins with its channel (exec.py explains them). A client that hangs up ends the
command it started; one that is attached only leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec

from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.logs.attaching import Tap
from boilerhouse.embedded.kubelet.pod.pod import PodWorker
from boilerhouse.embedded.kubelet.sandbox.execing import Program
from boilerhouse.embedded.kubelet.sandbox.process import Container
from boilerhouse.embedded.kubelet.sessions.choosing import chosen, flag
from boilerhouse.platform.kube.exec import PROTOCOLS, Channel
from boilerhouse.platform.kube.status import BadRequest, InternalError, NotFound, Unavailable
from boilerhouse.platform.kube.wire import Request, Socket

Body = Mapping[str, Any]
_FRESH_SECONDS = 60.0
_AFTER_EXIT = 1.0  # seconds for output that a process left behind may still hold open


class _Size(msgspec.Struct, rename="pascal"):
    width: int = 0
    height: int = 0


def open_session(
    pod: Body,
    worker: PodWorker | None,
    subresource: str,
    request: Request,
    offered: tuple[str, ...],
) -> Session:
    """Begin `exec` or `attach`; everything else is refused by name."""
    if subresource not in ("exec", "attach"):
        what = "port-forward" if subresource == "portforward" else "WebSockets through pods/proxy"
        address = pod.get("status", {}).get("podIP")
        where = f"the Pod's address, {address}," if address else "the Pod's address"
        raise BadRequest(f"{what}: not supported here, connect to {where} instead")
    subprotocol = next((one for one in PROTOCOLS if one in offered), None)
    if subprotocol is None:
        raise BadRequest(f"the client speaks none of {', '.join(PROTOCOLS)}")
    name = chosen(pod, request.param("container"))
    launched = _launched(worker, name)
    if launched.running is None:
        raise BadRequest(f"container {name} is built in: nothing can be run or attached to in it")
    if subresource == "exec":
        command = request.params("command")
        if not command:
            raise BadRequest("you must specify at least 1 command for the container")
        return Session(subprotocol, _executing(launched, command, request))
    container = next(
        one
        for group in ("containers", "initContainers")
        for one in pod["spec"].get(group, ())
        if one["name"] == name
    )
    if flag(request, "stdin") and not container.get("stdin"):
        raise BadRequest(f"container {name} has no standard input: `stdin` is not set")
    return Session(subprotocol, _attached(launched, container, request))


def _launched(worker: PodWorker | None, name: str) -> Launched:
    if worker is not None:
        for loop in worker.loops:
            if loop.facts.name == name and loop.launched is not None:
                return loop.launched
    raise NotFound(f'container not found ("{name}")')


def _executing(
    launched: Launched, command: list[str], request: Request
) -> Callable[[Socket], Awaitable[None]]:
    async def run(socket: Socket) -> None:
        assert launched.running is not None, "looked at before"
        tty, stdin = flag(request, "tty"), flag(request, "stdin")
        try:
            process = await launched.running.exec(command, tty=tty, stdin=stdin)
        except SandboxError as error:
            await _send_status(socket, InternalError(str(error)).to_status())
            return
        try:
            await _converse(socket, process, request)
        finally:
            await process.close()

    return run


async def _converse(socket: Socket, process: Program, request: Request) -> None:
    wanted: list[tuple[Literal["stdout", "stderr"], Channel]] = [("stdout", Channel.STDOUT)]
    if not flag(request, "tty"):
        wanted.append(("stderr", Channel.STDERR))
    carrying = [
        asyncio.create_task(_carry(socket, process, name, channel, shown=flag(request, name)))
        for name, channel in wanted
    ]
    hearing = asyncio.create_task(_hear(socket, process))
    ending = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({hearing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            return  # the client has hung up
        await asyncio.wait(carrying, timeout=_AFTER_EXIT)
        with contextlib.suppress(Unavailable):
            await _send_status(socket, _ended(ending.result()))
    finally:
        tasks = [*carrying, hearing, ending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(
    socket: Socket,
    process: Program,
    stream: Literal["stdout", "stderr"],
    channel: Channel,
    *,
    shown: bool,
) -> None:
    """Carry one stream out; one that nobody asked for is read all the same, or it would fill."""
    with contextlib.suppress(Unavailable):
        while data := await process.read(stream):
            if shown:
                await socket.send(bytes([channel]) + data)


async def _hear(socket: Socket, process: Container | Program | None) -> None:
    """Take what the client sends until it hangs up; without a process, for nothing."""
    while (message := await socket.receive()) is not None:
        if not message or process is None:
            continue
        channel, data = message[0], message[1:]
        if channel == Channel.STDIN:
            await process.write(data)
        elif channel == Channel.CLOSE and data[:1] == bytes([Channel.STDIN]):
            process.close_stdin()
        elif channel == Channel.RESIZE:
            with contextlib.suppress(msgspec.MsgspecError):
                size = msgspec.json.decode(data, type=_Size)
                process.resize(size.width, size.height)


def _attached(
    launched: Launched, container: Body, request: Request
) -> Callable[[Socket], Awaitable[None]]:
    stdin, tty = flag(request, "stdin"), bool(container.get("tty"))
    # Begun for one client, or just now: whoever attaches first wants all of it.
    fresh = bool(container.get("stdinOnce")) or launched.log.file.age() < _FRESH_SECONDS

    async def run(socket: Socket) -> None:
        assert launched.running is not None, "looked at before"
        # Before the first input: nothing it answers may be missed.
        tap = await asyncio.to_thread(launched.log.open, from_start=fresh)
        hearing = asyncio.create_task(_hear(socket, launched.running if stdin else None))
        telling = asyncio.create_task(_tell(socket, tap, tty=tty))
        try:
            done, _ = await asyncio.wait({hearing, telling}, return_when=asyncio.FIRST_COMPLETED)
            if telling in done and telling.exception() is None:  # the container has ended
                await launched.process.wait()
                # Whatever its exit code, which is the Pod's to tell: so does a real kubelet, and
                # kubectl takes another answer for a failed attach and prints the log once more.
                with contextlib.suppress(Unavailable):
                    await _send_status(socket, _ended(0))
        finally:
            launched.log.let_go(tap)
            if stdin and container.get("stdinOnce"):
                launched.running.close_stdin()
            for task in (hearing, telling):
                task.cancel()
            await asyncio.gather(hearing, telling, return_exceptions=True)

    return run


async def _tell(socket: Socket, tap: Tap, *, tty: bool) -> None:
    while (piece := await tap.read()) is not None:
        stream, data = piece
        channel = Channel.STDOUT if tty or stream == "stdout" else Channel.STDERR
        await socket.send(bytes([channel]) + data)


async def _send_status(socket: Socket, status: Mapping[str, Any]) -> None:
    await socket.send(bytes([Channel.STATUS]) + msgspec.json.encode(status))


def _ended(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
