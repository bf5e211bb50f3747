"""/instances/{id}/exec: a command in an instance, its output whole or as it comes."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from boilerhouse.api.auth import INSTANCES_EXEC
from boilerhouse.api.commands import Ending, argv, ending_of, refuse_dead
from boilerhouse.api.errors import bad_request, problem_of
from boilerhouse.api.handlers.instances import found
from boilerhouse.api.handlers.logs import tenant_container
from boilerhouse.api.hangup import Connected
from boilerhouse.api.house import House, TheHouse
from boilerhouse.api.paths import V1
from boilerhouse.api.shortcut import Shortcut
from boilerhouse.api.streaming import Streaming
from boilerhouse.kube.exec import V5, Channel, CommandTimeout, Session
from boilerhouse.kube.kinds import Pod
from boilerhouse.kube.pods import EXEC_LIMIT, EXEC_TIMEOUT
from boilerhouse.kube.status import ApiError

NDJSON = "application/x-ndjson"

Argument = Annotated[str, Meta(max_length=131_072, pattern=r"^[^\x00]*\Z")]


class ExecRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Program and arguments, run without a shell. `env` needs the program `env` in the image."""

    command: Annotated[list[Argument], Meta(min_length=1, max_length=1024)]
    stdin: str | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = EXEC_TIMEOUT
    env: dict[str, Argument] = msgspec.field(default_factory=dict)


class ExecResult(msgspec.Struct, rename="camel"):
    """How it ended. `truncated` says that more was written than is shown."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool


@post(
    f"{V1}/instances/{{name:str}}/exec",
    opt={"scope": INSTANCES_EXEC},
    status_code=200,
    middleware=[Shortcut],
)
async def exec_instance(
    name: FromPath[str],
    data: JSONBody[ExecRequest],
    house: TheHouse,
    request: Request[Any, Any, Any],
) -> Response[ExecResult]:
    """Run a command. With `Accept: application/x-ndjson` the output comes line by line."""
    command = argv(data.command, data.env)
    if not data.command[0]:
        raise bad_request("command: the program has no name")
    pod = await found(house, request, name)
    refuse_dead(pod, house.claim_of(pod))
    with Connected(request.receive, house.streams):
        await house.introduced(pod)
    if NDJSON in request.headers.get("accept", ""):
        return await _streamed(house, pod, command, data)
    claim = house.claim_of(pod)
    with house.execs:
        async with house.activity.busy(claim):
            with Connected(request.receive, house.streams):
                ending = await _run(house, pod, command, data)
    result = ExecResult(
        ending.exit_code,
        ending.stdout.decode(errors="replace"),
        ending.stderr.decode(errors="replace"),
        ending.truncated,
    )
    return Response(result, status_code=200)


async def _run(house: House, pod: Pod, command: list[str], data: ExecRequest) -> Ending:
    try:
        result = await house.client.pods.run(
            pod.metadata.name,
            command,
            container=tenant_container(pod),
            stdin=None if data.stdin is None else data.stdin.encode("utf-8", "surrogatepass"),
            timeout=data.timeout_seconds,
            limit=EXEC_LIMIT,
        )
    except ApiError as error:
        return ending_of(error, data.command[0], pod)
    return Ending(result.exit_code, result.stdout, result.stderr, result.truncated)


async def _streamed(house: House, pod: Pod, command: list[str], data: ExecRequest) -> Streaming:
    """Open the command first: what keeps it from running is still an honest status."""
    async with AsyncExitStack() as opening:
        opening.enter_context(house.execs)
        await opening.enter_async_context(house.activity.busy(house.claim_of(pod)))
        session = await opening.enter_async_context(
            house.client.pods.exec(
                pod.metadata.name,
                command,
                container=tenant_container(pod),
                stdin=data.stdin is not None,
            )
        )
        if data.stdin is not None and session.protocol != V5:
            raise bad_request(f"stdin: this node cannot end it, which needs {V5}")
        opened = opening.pop_all()
    lines = _lines(session, pod, data)
    return Streaming(house.streams, lines, media_type=NDJSON, opened=opened)


async def _lines(session: Session, pod: Pod, data: ExecRequest) -> AsyncIterator[bytes]:
    """Yield `{"stream", "data"}` per piece of output and at last `{"exitCode"}` or an error."""
    decoders = {
        channel: codecs.getincrementaldecoder("utf-8")(errors="replace")
        for channel in (Channel.STDOUT, Channel.STDERR)
    }
    end = asyncio.get_running_loop().time() + data.timeout_seconds
    feeding = asyncio.create_task(_feed(session, data.stdin)) if data.stdin is not None else None
    try:
        while True:
            # Around the reading alone: the block must not be left by a yield.
            async with asyncio.timeout_at(end):
                output = await session.read()
            if output is None:
                break
            text = decoders[output.channel].decode(output.data)
            if text:
                yield _line({"stream": output.channel.name.lower(), "data": text})
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
            yield _line({"stream": "stderr", "data": ending.stderr.decode(errors="replace")})
            yield _line({"exitCode": ending.exit_code})
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(session: Session, stdin: str) -> None:
    await session.write(stdin.encode("utf-8", "surrogatepass"))
    await session.close_stdin()


def _failure(error: Exception) -> bytes:
    problem = problem_of(error)
    return _line({"error": problem.message, "code": problem.code})


def _line(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body) + b"\n"
