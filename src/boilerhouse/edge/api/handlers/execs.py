"""/instances/{id}/exec: a command in an instance, its output whole or as it comes.

Output is bytes and JSON is text: `encoding` chooses between text with U+FFFD for what is no UTF-8,
and base64, which is exact.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from boilerhouse.edge.api.auth import INSTANCES_EXEC, Call, Caller, caller_of
from boilerhouse.edge.api.commands import Ending, argv, ending_of, refuse_dead
from boilerhouse.edge.api.errors import Problem, bad_request, problem_of
from boilerhouse.edge.api.handlers.instances import found, tenant_of
from boilerhouse.edge.api.handlers.logs import tenant_container
from boilerhouse.edge.api.hangup import Connected
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.streaming import Streaming
from boilerhouse.platform.kube.exec import V5, Channel, CommandTimeout, Session
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.pods import EXEC_LIMIT, EXEC_TIMEOUT
from boilerhouse.platform.kube.status import ApiError

NDJSON = "application/x-ndjson"

Argument = Annotated[str, Meta(max_length=131_072, pattern=r"^[^\x00]*\Z")]


Encoding = Literal["utf-8", "base64"]


class ExecRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Program and arguments, run without a shell. `env` needs the program `env` in the image.

    `encoding` says how `stdin`, `stdout`, `stderr` and the `data` of streamed events are written:
    `base64` is exact, `utf-8` shows U+FFFD for bytes that are no UTF-8.
    """

    command: Annotated[list[Argument], Meta(min_length=1, max_length=1024)]
    stdin: str | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = EXEC_TIMEOUT
    env: dict[str, Argument] = msgspec.field(default_factory=dict)
    encoding: Encoding = "utf-8"


class ExecResult(msgspec.Struct, rename="camel"):
    """How it ended. `truncated` says that more was written than is shown."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool


@post(f"{V1}/instances/{{name:str}}/exec", opt={"scope": INSTANCES_EXEC}, status_code=200)
async def exec_instance(
    name: FromPath[str], data: JSONBody[ExecRequest], services: TheServices, request: Call
) -> Response[ExecResult]:
    """Run a command. With `Accept: application/x-ndjson` the output comes line by line."""
    command = argv(data.command, data.env)
    if not data.command[0]:
        raise bad_request("command: the program has no name")
    stdin = _input(data)
    pod = await found(services, request, name)
    refuse_dead(pod, services.claim_of(pod))
    with Connected(request.receive, services.streams):
        await services.wait_for_identity(pod)
    if NDJSON in request.headers.get("accept", ""):
        return await _streamed(services, caller_of(request), pod, command, data, stdin)
    claim = services.claim_of(pod)
    with services.commands.place(caller_of(request), tenant_of(pod)):
        async with services.activity.busy(claim):
            with Connected(request.receive, services.streams):
                ending = await _run(services, pod, command, data, stdin)
    text = _base64 if data.encoding == "base64" else _utf8
    result = ExecResult(
        ending.exit_code, text(ending.stdout), text(ending.stderr), ending.truncated
    )
    return Response(result, status_code=200)


def _input(data: ExecRequest) -> bytes | None:
    if data.stdin is None:
        return None
    if data.encoding == "utf-8":
        return data.stdin.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(data.stdin, validate=True)
    except (binascii.Error, ValueError):  # ValueError: a character that is not even ASCII
        raise bad_request("stdin: not base64, which `encoding` says it is") from None


def _base64(output: bytes) -> str:
    return base64.b64encode(output).decode()


def _utf8(output: bytes) -> str:
    return output.decode(errors="replace")


async def _run(
    services: Services, pod: Pod, command: list[str], data: ExecRequest, stdin: bytes | None
) -> Ending:
    try:
        result = await services.client.pods.run(
            pod.metadata.name,
            command,
            container=tenant_container(pod),
            stdin=stdin,
            timeout=data.timeout_seconds,
            limit=EXEC_LIMIT,
        )
    except CommandTimeout as error:
        if data.encoding == "utf-8":
            raise
        raise _late(error) from error
    except ApiError as error:
        return ending_of(error, data.command[0], pod)
    return Ending(result.exit_code, result.stdout, result.stderr, result.truncated)


def _late(error: CommandTimeout) -> Problem:
    """Say in base64 what a command had written that did not end in time."""
    problem = problem_of(error)
    problem.details = {
        "stdout": _base64(error.stdout),
        "stderr": _base64(error.stderr),
        "truncated": error.truncated,
    }
    return problem


async def _streamed(
    services: Services,
    caller: Caller,
    pod: Pod,
    command: list[str],
    data: ExecRequest,
    stdin: bytes | None,
) -> Streaming:
    """Open the command first: what keeps it from running is still an honest status."""
    async with AsyncExitStack() as opening:
        opening.enter_context(services.commands.place(caller, tenant_of(pod)))
        await opening.enter_async_context(services.activity.busy(services.claim_of(pod)))
        session = await opening.enter_async_context(
            services.client.pods.exec(
                pod.metadata.name,
                command,
                container=tenant_container(pod),
                stdin=stdin is not None,
            )
        )
        if stdin is not None and session.protocol != V5:
            raise bad_request(f"stdin: this node cannot end it, which needs {V5}")
        opened = opening.pop_all()
    lines = _lines(session, pod, data, stdin)
    return Streaming(services.streams, lines, media_type=NDJSON, opened=opened)


async def _lines(
    session: Session, pod: Pod, data: ExecRequest, stdin: bytes | None
) -> AsyncIterator[bytes]:
    """Yield `{"stream", "data"}` per piece of output and at last `{"exitCode"}` or an error."""
    texts = {channel: _in_pieces(data.encoding) for channel in (Channel.STDOUT, Channel.STDERR)}
    end = asyncio.get_running_loop().time() + data.timeout_seconds
    feeding = asyncio.create_task(_feed(session, stdin)) if stdin is not None else None
    try:
        while True:
            # Around the reading alone: the block must not be left by a yield.
            async with asyncio.timeout_at(end):
                output = await session.read()
            if output is None:
                break
            text = texts[output.channel](output.data, False)
            if text:
                yield _line({"stream": output.channel.name.lower(), "data": text})
        for channel, last in texts.items():
            if text := last(b"", True):  # a character that was begun and never ended
                yield _line({"stream": channel.name.lower(), "data": text})
        yield _line({"exitCode": session.exit_code})
    except TimeoutError:
        late = f"exec: the command did not end within {data.timeout_seconds:g} s"
        yield _failure(CommandTimeout(late, b"", b""))
    except ApiError as error:
        try:
            ending = ending_of(error, data.command[0], pod)
        except Exception as failure:  # noqa: BLE001 - the status is long sent: it goes into the body
            yield _failure(failure)
        else:
            text = texts[Channel.STDERR](ending.stderr, True)
            yield _line({"stream": "stderr", "data": text})
            yield _line({"exitCode": ending.exit_code})
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


def _in_pieces(encoding: Encoding) -> Callable[[bytes, bool], str]:
    """Return what writes a stream's pieces as text; True says that the piece is the last."""
    if encoding == "base64":
        return lambda piece, _: _base64(piece)
    # Keeps the half of a character that a piece ends with for the next one.
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode


async def _feed(session: Session, stdin: bytes) -> None:
    await session.write(stdin)
    await session.close_stdin()


def _failure(error: Exception) -> bytes:
    problem = problem_of(error)
    return _line({"error": problem.message, "code": problem.code})


def _line(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body) + b"\n"
