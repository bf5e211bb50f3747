"""The channel protocol over real WebSockets: v5 and v4, exit codes, half-close, limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.exec import V4, V5, Channel, CommandTimeout, Output
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    InternalError,
    NotFound,
    Unavailable,
)
from boilerhouse.platform.kube.transport import Http

Behaviour = Callable[[ServerConnection], Awaitable[None]]

SUCCESS = json.dumps({"status": "Success", "metadata": {}}).encode()


def ended(code: int) -> bytes:
    """Build the Status of a command that ended with `code`."""
    if code == 0:
        return SUCCESS
    causes = [{"reason": "ExitCode", "message": str(code)}]
    body = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return json.dumps(body).encode()


@asynccontextmanager
async def kubelet(
    behaviour: Behaviour, protocols: tuple[str, ...] = (V5, V4)
) -> AsyncIterator[Client]:
    """Serve exec as told; yields a client of it."""

    async def handler(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await behaviour(connection)

    server = await serve(
        handler, "127.0.0.1", 0, subprotocols=[Subprotocol(p) for p in protocols], max_size=None
    )
    port = next(iter(server.sockets)).getsockname()[1]
    client = Client(Http(Config(f"http://127.0.0.1:{port}")))
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


async def send(connection: ServerConnection, channel: int, data: bytes) -> None:
    await connection.send(bytes([channel]) + data)


async def test_output_and_exit_code() -> None:
    """Both streams are told apart and the exit code is the command's."""

    async def behaviour(connection: ServerConnection) -> None:
        for channel in (0, 1, 2, 3):
            await send(connection, channel, b"")  # as real servers announce their channels
        await send(connection, 1, b"out")
        await send(connection, 2, b"err")
        await send(connection, 3, ended(3))

    async with kubelet(behaviour) as client:
        result = await client.pods.run("x", ["sh", "-c", "exit 3"])
    assert (result.stdout, result.stderr, result.exit_code) == (b"out", b"err", 3)
    assert not result.truncated


async def test_the_command_reaches_the_server() -> None:
    """Arguments in order, the container, and which streams are wanted."""
    path = ""

    async def behaviour(connection: ServerConnection) -> None:
        nonlocal path
        assert connection.request is not None
        path = connection.request.path
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        await client.pods.run("x", ["echo", "a b", "&c"], container="main", stdin=b"")
        assert path == (
            "/api/v1/namespaces/default/pods/x/exec?command=echo&command=a%20b&command=%26c"
            "&stdout=true&stderr=true&stdin=true&tty=false&container=main"
        )
        async with client.pods.exec("x", ["sh"], tty=True, stdin=True):
            pass
        assert "stderr=false&stdin=true&tty=true" in path
        with pytest.raises(BadRequest, match="no command"):
            await client.pods.run("x", [])


async def test_stdin_is_sent_and_ended_in_version_5() -> None:
    """A command that reads its input to the end sees that end."""

    async def behaviour(connection: ServerConnection) -> None:
        read = b""
        async for message in connection:
            assert isinstance(message, bytes)
            if message == bytes([255, 0]):
                break
            assert message[0] == 0
            assert len(message) <= 32 * 1024 + 1
            read += message[1:]
        await send(connection, 1, str(len(read)).encode())
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        result = await client.pods.run("x", ["wc", "-c"], stdin=b"x" * 1_000_000)
    assert result.stdout == b"1000000"


async def test_version_4_is_spoken_where_5_is_not() -> None:
    """Everything but the end of stdin works; that is refused by name, not left to hang."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 1, b"old")
        await send(connection, 3, SUCCESS)
        await connection.wait_closed()

    async with kubelet(behaviour, (V4,)) as client:
        async with client.pods.exec("x", ["sh"], stdin=True) as session:
            assert session.protocol == V4
            await session.write(b"ls\n")
            with pytest.raises(BadRequest, match=V4):
                await session.close_stdin()
            assert await session.read() == Output(Channel.STDOUT, b"old")
        with pytest.raises(BadRequest, match="cannot end stdin"):
            await client.pods.run("x", ["cat"], stdin=b"data")
        async with client.pods.exec("x", ["sh"]) as session:
            assert await session.read() == Output(Channel.STDOUT, b"old")


async def test_a_server_without_the_protocol_is_refused() -> None:
    """Channel bytes are not guessed at."""

    async def behaviour(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with kubelet(behaviour, ("v1.channel.k8s.io",)) as client:
        with pytest.raises((InternalError, ApiError)):
            await client.pods.run("x", ["true"])


async def test_a_terminal_can_be_resized() -> None:
    """Input and sizes arrive in order; output comes while the session is open."""
    seen: list[bytes] = []

    async def behaviour(connection: ServerConnection) -> None:
        for _ in range(2):
            message = await connection.recv()
            assert isinstance(message, bytes)
            seen.append(message)
        await send(connection, 1, b"$ ")
        await send(connection, 3, ended(130))

    async with (
        kubelet(behaviour) as client,
        client.pods.exec("x", ["sh"], tty=True, stdin=True) as session,
    ):
        await session.resize(120, 40)
        await session.write(b"\x03")
        assert await session.read() == Output(Channel.STDOUT, b"$ ")
        assert await session.wait() == 130
    assert seen[0][0] == 4
    assert json.loads(seen[0][1:]) == {"Width": 120, "Height": 40}
    assert seen[1] == b"\x00\x03"


async def test_output_that_was_overtaken_by_the_status_is_not_lost() -> None:
    """The server copies its streams side by side: the Status may come first."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 3, SUCCESS)
        await send(connection, 1, b"late")

    async with kubelet(behaviour) as client:
        assert (await client.pods.run("x", ["true"])).stdout == b"late"


async def test_a_command_that_cannot_be_run_is_the_servers_error() -> None:
    """A failure that is not an exit code is raised as what it is."""
    failure = {"status": "Failure", "reason": "NotFound", "message": "no container", "code": 404}

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 3, json.dumps(failure).encode())

    async with kubelet(behaviour) as client:
        with pytest.raises(NotFound, match="no container"):
            await client.pods.run("x", ["true"])


@pytest.mark.parametrize("body", [b"oops", b"[]", b"{}", b'{"status": 5}'])
async def test_a_final_status_that_is_none_is_an_error(body: bytes) -> None:
    """An exit code is never invented."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 3, body)

    async with kubelet(behaviour) as client:
        with pytest.raises(ApiError):
            await client.pods.run("x", ["true"])


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_connection_that_ends_before_the_command_is_unavailable(abrupt: bool) -> None:
    """Without a Status nobody knows how it ended, however politely the server hangs up."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 1, b"half")
        if abrupt:
            connection.transport.abort()

    async with kubelet(behaviour) as client:
        with pytest.raises(Unavailable, match=r"exec|connection"):
            await client.pods.run("x", ["true"])


async def test_output_beyond_the_limit_is_dropped_and_said_so() -> None:
    """The command runs to its end, we keep the first part of each stream."""

    async def behaviour(connection: ServerConnection) -> None:
        for _ in range(50):
            await send(connection, 1, b"x" * 10_000)
        await send(connection, 2, b"short")
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        result = await client.pods.run("x", ["yes"], limit=15_000)
    assert result.stdout == b"x" * 15_000
    assert result.stderr == b"short"
    assert result.truncated


async def test_a_command_that_does_not_end_is_given_up_with_what_it_wrote() -> None:
    """The deadline holds, and the output so far is in the exception."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 1, b"thinking")
        await connection.wait_closed()

    async with kubelet(behaviour) as client:
        with pytest.raises(CommandTimeout, match=r"within 0\.2 s") as caught:
            await client.pods.run("x", ["sleep"], timeout=0.2)
    assert caught.value.stdout == b"thinking"


async def test_a_command_may_end_without_reading_its_input() -> None:
    """`true` does not care what it is fed; its exit code counts."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        result = await client.pods.run("x", ["true"], stdin=b"x" * 5_000_000, timeout=10)
    assert result.exit_code == 0


async def test_who_does_not_read_makes_the_command_wait() -> None:
    """A flood stays with its sender: it is stopped long before it is all in our memory."""
    sent = 0

    async def behaviour(connection: ServerConnection) -> None:
        nonlocal sent
        while sent < 500:
            await send(connection, 1, b"x" * 100_000)
            sent += 1
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client, client.pods.exec("x", ["yes"]) as session:
        previous = -1
        while previous != sent:
            previous = sent
            await asyncio.sleep(0.1)
        assert sent < 400
        assert await session.wait() == 0
    assert sent == 500


async def test_pings_are_answered_while_reading() -> None:
    """A server that asks whether we are there gets its answer."""

    async def behaviour(connection: ServerConnection) -> None:
        async with asyncio.timeout(5):
            await (await connection.ping())
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        assert (await client.pods.run("x", ["true"])).exit_code == 0


async def test_messages_in_fragments_and_large_ones_arrive_whole() -> None:
    """Fragments of one message are put together; a megabyte in one message is no trouble."""

    async def behaviour(connection: ServerConnection) -> None:
        async def parts() -> AsyncIterator[bytes]:
            yield b"\x01frag"
            yield b"ment"
            yield b"ed"

        await connection.send(parts())
        await send(connection, 2, b"y" * 1_000_000)
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client:
        result = await client.pods.run("x", ["true"], limit=2_000_000)
    assert result.stdout == b"fragmented"
    assert len(result.stderr) == 1_000_000


async def test_what_the_caller_raises_comes_out_as_it_is() -> None:
    """No wrapping in groups, and the connection is closed."""
    closed = asyncio.Event()

    async def behaviour(connection: ServerConnection) -> None:
        await connection.wait_closed()
        closed.set()

    async with kubelet(behaviour) as client:
        with pytest.raises(KeyError):
            async with client.pods.exec("x", ["sh"]):
                raise KeyError("mine")
        async with asyncio.timeout(5):
            await closed.wait()


async def test_sending_into_a_closed_session_is_unavailable() -> None:
    """After the end there is nobody to write to."""

    async def behaviour(connection: ServerConnection) -> None:
        await send(connection, 3, SUCCESS)

    async with kubelet(behaviour) as client, client.pods.exec("x", ["sh"], stdin=True) as session:
        assert await session.wait() == 0
        with pytest.raises(Unavailable):
            await session.write(b"hello?")
