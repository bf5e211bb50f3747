"""`boilerhouse exec`: a command in an instance, as if it ran here.

no -i, no -t ─► POST …/exec, streamed ─► stdout, stderr, exit code
-i or -t     ─► WebSocket …/attach ◄─► this terminal: keys in, output out, size followed
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from boilerhouse.cli.rest import Failure, Rest, segment
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.exec import PROTOCOLS, Channel, Session
from boilerhouse.platform.kube.status import ApiError, Unavailable
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Request

NDJSON = "application/x-ndjson"
STREAM_SECONDS = 3600  # seconds a streamed command may take; -i has no limit
PIECE = 32 << 10


def run(rest: Rest, instance: str, command: Sequence[str], *, stdin: bool, terminal: bool) -> int:
    """Run a command; return its own exit code."""
    if not stdin and not terminal:
        return _streamed(rest, instance, command)
    if terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("-t needs a terminal, which this is not: leave it out", 2)
    try:
        return asyncio.run(_attached(rest, instance, command, stdin=stdin, terminal=terminal))
    except ApiError as error:
        raise Failure(_sentence(error), status=error.status_code) from None


def _streamed(rest: Rest, instance: str, command: Sequence[str]) -> int:
    body = {"command": list(command), "timeoutSeconds": STREAM_SECONDS, "encoding": "base64"}
    path = f"instances/{segment(instance)}/exec"
    with rest.stream("POST", path, body, accept=NDJSON) as answer:
        for line in lines_of(answer.iter_bytes()):
            said = msgspec.json.decode(line)
            if "exitCode" in said:
                return int(said["exitCode"])
            if "error" in said:
                raise Failure(said["error"])
            target = sys.stdout if said["stream"] == "stdout" else sys.stderr
            target.buffer.write(base64.b64decode(said["data"]))
            target.buffer.flush()
    raise Failure("the connection ended before the command did")


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split at newlines alone: U+2028 and its like are part of a line, not the end of one."""
    begun: list[bytes] = []
    for piece in pieces:
        first, *ends = piece.split(b"\n")
        begun.append(first)
        for end in ends:
            yield b"".join(begun)
            begun = [end]
    if rest := b"".join(begun):
        yield rest


async def _attached(
    rest: Rest, instance: str, command: Sequence[str], *, stdin: bool, terminal: bool
) -> int:
    headers = (("authorization", f"Bearer {rest.key}"),) if rest.key else ()
    http = Http(Config(server=rest.url, headers=headers))
    query = [("command", part) for part in command]
    query += [("stdin", str(stdin).lower()), ("tty", str(terminal).lower())]
    request = Request("GET", f"/api/v1/instances/{instance}/attach", tuple(query))
    try:
        async with http.socket(request, PROTOCOLS) as socket:
            session = Session(socket)
            with _raw() if terminal else _as_is():
                return await _talk(session, stdin=stdin, terminal=terminal)
    finally:
        await http.close()


async def _talk(session: Session, *, stdin: bool, terminal: bool) -> int:
    loop = asyncio.get_running_loop()
    beside: set[asyncio.Task[None]] = set()

    def resize() -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        task = loop.create_task(session.resize(size.columns, size.lines))
        beside.add(task)
        task.add_done_callback(beside.discard)

    if terminal:
        loop.add_signal_handler(signal.SIGWINCH, resize)
        resize()
    hearing = loop.create_task(_hear(session))
    feeding = loop.create_task(_feed(session)) if stdin else None
    try:
        if feeding is not None:
            await asyncio.wait((hearing, feeding), return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                feeding.result()  # what is wrong with our input is told at once
        return await hearing
    finally:
        tasks = [task for task in (hearing, feeding, *beside) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hear(session: Session) -> int:
    """Write what the command writes; return its exit code."""
    while (output := await session.read()) is not None:
        stream = sys.stdout if output.channel == Channel.STDOUT else sys.stderr
        stream.buffer.write(output.data)
        stream.buffer.flush()
    assert session.exit_code is not None, "the output has ended"
    return session.exit_code


async def _feed(session: Session) -> None:
    """Pass our input on, and its end. A command that ends first does not want the rest.

    Read by a thread, since an event loop cannot wait for every kind of input, such as a file; and
    by one that may be left behind, since nobody else ends what waits for a key.
    """
    pieces: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    wanted = threading.Semaphore()
    loop = asyncio.get_running_loop()

    def read() -> None:
        piece: bytes | OSError = b" "
        while piece and isinstance(piece, bytes):
            wanted.acquire()
            piece = _piece()
            with suppress(RuntimeError):  # the loop is closed: nobody wants it any more
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    with suppress(Unavailable):
        while piece := await pieces.get():
            if isinstance(piece, OSError):
                raise Failure(f"stdin: {piece.strerror}")
            await session.write(piece)
            wanted.release()
        await session.close_stdin()


def _piece() -> bytes | OSError:
    """Read some input, b"" at its end."""
    try:
        return os.read(sys.stdin.fileno(), PIECE)
    except OSError as error:
        return error


@contextmanager
def _raw() -> Iterator[None]:
    """Give every key to the command, and the terminal back as it was, whatever happens."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _as_is() -> Iterator[None]:
    yield


def _sentence(error: ApiError) -> str:
    """Take our own words out of an answer that the Kubernetes client could not read."""
    try:
        return str(msgspec.json.decode(error.message)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return error.message
