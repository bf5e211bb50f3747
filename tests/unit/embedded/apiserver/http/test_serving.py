"""The listeners over real sockets, in front of a handler that only counts and echoes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.embedded.apiserver.http import asgi, pki, serving
from boilerhouse.embedded.apiserver.http.asgi import GZIP_FROM
from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.embedded.apiserver.request.decoding import BODY_LIMIT
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.kube.wire import Reply, Request, Socket, Stream
from boilerhouse.platform.serving import listening


@dataclass
class Echo:
    """Answers /echo with what it got, /watch with an endless stream, /slow when told to go on."""

    seen: list[Request] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    proceed: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: Request) -> Reply | Stream:
        self.seen.append(request)
        match request.path:
            case "/watch":
                return Stream(200, self._ticks())
            case "/big":
                return Reply(200, b"x" * GZIP_FROM)
            case "/slow" | "/slow-watch":
                self.entered.set()
                await self.proceed.wait()
                return Reply(201) if request.path == "/slow" else Stream(200, self._ticks())
            case "/bug":
                raise RuntimeError("the password is hunter2")
            case "/missing":
                raise NotFound("nothing here", name="x")
            case _:
                return Reply(200, request.body)

    async def open(self, request: Request, subprotocols: tuple[str, ...]) -> Session:
        if request.path != "/exec":
            raise NotFound("no such session")

        async def run(peer: Socket) -> None:
            while (message := await peer.receive()) is not None:
                await peer.send(message[::-1])

        return Session(subprotocols[0], run)

    async def _ticks(self) -> AsyncIterator[bytes]:
        try:
            yield b"one\n"
            await asyncio.Event().wait()
        finally:
            self.closed.set()


@dataclass
class World:
    echo: Echo
    serving: serving.Serving
    pki: pki.Pki
    path: Path
    port: int

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.pki.ca.decode())

    def client(self, **headers: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}", verify=self.tls(), headers=headers
        )

    def admin(self) -> httpx2.AsyncClient:
        return self.client(authorization=f"Bearer {self.pki.token}")

    def local(self) -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(uds=str(self.path))
        return httpx2.AsyncClient(base_url="http://local", transport=transport)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), SystemClock())


@pytest.fixture
async def world(tmp_path: Path, certificates: pki.Pki) -> AsyncIterator[World]:
    echo, path = Echo(), tmp_path / "kube.sock"
    tcp = serving.bind_tcp("127.0.0.1", 0, None)
    served = serving.Serving(echo, serving.bind_unix(path), tcp, certificates)
    await served.start(SystemClock())
    yield World(echo, served, certificates, path, tcp.getsockname()[1])
    await served.stop()


async def test_the_unix_socket_needs_no_token_and_only_its_owner_can_reach_it(world: World) -> None:
    """The file mode is the guard of the socket; a request arrives decoded and whole."""
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600
    async with world.local() as client:
        reply = await client.post("/a%20b?x=1&x=2&y=", content=b"hello", headers={"X-Thing": "T"})
    assert (reply.status_code, reply.content) == (200, b"hello")
    (request,) = world.echo.seen
    assert (request.method, request.path) == ("POST", "/a b")
    assert request.query == (("x", "1"), ("x", "2"), ("y", ""))
    assert request.headers["x-thing"] == "T"


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer wrong", "Basic {}", "bearer {}x"])
async def test_the_tls_port_refuses_who_shows_no_token(world: World, shown: str) -> None:
    """Without the right token the answer is a 401 Status, and the handler never hears of it."""
    async with world.client(authorization=shown.format(world.pki.token)) as client:
        reply = await client.get("/api")
    assert reply.status_code == 401
    assert reply.json()["reason"] == "Unauthorized"
    assert world.echo.seen == []


async def test_the_tls_port_answers_who_shows_the_token(world: World) -> None:
    """The token of the kubeconfig opens the port, and the certificate is good for 127.0.0.1."""
    async with world.admin() as client:
        assert (await client.get("/api")).status_code == 200
    async with world.client() as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_a_body_over_the_limit_is_refused_by_its_declared_size(world: World) -> None:
    """413 comes before the body is read, and the connection still serves the next request."""
    async with world.local() as client:
        reply = await client.post("/echo", content=b"x" * (BODY_LIMIT + 1))
        assert reply.status_code == 413
        assert reply.json()["reason"] == "RequestEntityTooLarge"
        assert (await client.post("/echo", content=b"x" * BODY_LIMIT)).status_code == 200


async def test_a_body_over_the_limit_is_refused_while_it_streams(world: World) -> None:
    """A chunked body has no declared size: it is cut off where the limit is."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    async with world.local() as client:
        reply = await client.post("/echo", content=endless())
    assert reply.status_code == 413
    assert world.echo.seen == []


async def test_errors_become_statuses_and_bugs_tell_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ApiError is its Status; anything else is a 500 whose cause is only in the log."""
    async with world.local() as client:
        missing, bug = await client.get("/missing"), await client.get("/bug")
    assert (missing.status_code, missing.json()["details"]) == (404, {"name": "x"})
    assert (bug.status_code, bug.json()["reason"]) == (500, "InternalError")
    assert "hunter2" not in bug.text
    assert "hunter2" in capsys.readouterr().out


async def test_big_answers_are_compressed_on_the_port_for_clients_that_accept_it(
    world: World,
) -> None:
    """gzip above 128 KiB over TLS, never on the Unix socket, never unasked."""
    async with world.admin() as client:
        packed = await client.get("/big", headers={"accept-encoding": "gzip"})
        plain = await client.get("/big", headers={"accept-encoding": "identity"})
    async with world.local() as client:
        local = await client.get("/big", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content == local.content
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in local.headers


async def test_a_client_that_leaves_a_watch_closes_it(world: World) -> None:
    """The stream behind a dropped connection is closed at once, not at the next event."""
    async with world.local() as client, client.stream("GET", "/watch") as reply:
        async for line in reply.aiter_lines():
            assert line == "one"
            break
    await asyncio.wait_for(world.echo.closed.wait(), 5)


async def test_stopping_ends_watches_cleanly_and_lets_writes_finish(world: World) -> None:
    """A watch gets a proper end, a request in flight its answer."""
    async with world.local() as client, world.admin() as other:
        slow = asyncio.create_task(other.post("/slow"))
        async with client.stream("GET", "/watch") as reply:
            await world.echo.entered.wait()
            lines = reply.aiter_lines()
            assert await anext(lines) == "one"
            stopping = asyncio.create_task(world.serving.stop())
            assert [line async for line in lines] == []
        world.echo.proceed.set()
        assert (await slow).status_code == 201
        await asyncio.wait_for(stopping, 5)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(str(world.path))


async def test_a_watch_that_opens_while_stopping_ends_at_once(world: World) -> None:
    """A late stream does not hold up the stop until stragglers are cut off."""
    async with world.local() as client:
        late = asyncio.create_task(client.get("/slow-watch"))
        await world.echo.entered.wait()
        stopping = asyncio.create_task(world.serving.stop())
        await asyncio.sleep(0)
        world.echo.proceed.set()
        assert (await late).status_code == 200
        await asyncio.wait_for(stopping, listening.STOP_SECONDS / 2)


async def test_a_websocket_is_handed_to_its_session(world: World) -> None:
    """Messages go both ways under the subprotocol that the session chose."""
    import websockets

    async with websockets.unix_connect(
        str(world.path),
        "ws://local/exec",
        subprotocols=[websockets.Subprotocol("v5.channel.k8s.io")],
    ) as peer:
        assert peer.subprotocol == "v5.channel.k8s.io"
        await peer.send(b"abc")
        assert await peer.recv() == b"cba"
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.unix_connect(str(world.path), "ws://local/other")
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["message"] == "no such session"


async def raw(world: World, sent: bytes) -> bytes:
    """Send bytes to the Unix socket; return all that comes back."""
    reader, writer = await asyncio.open_unix_connection(world.path)
    writer.write(sent)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_trailer_is_no_header(world: World) -> None:
    """What comes behind the body is not believed: neither a token, nor a Host, nor a length."""
    answer = await raw(
        world,
        b"POST /echo HTTP/1.1\r\nHost: here\r\nX-A: 1\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
        b"2\r\nhi\r\n0\r\nAuthorization: Bearer x\r\nHost: there\r\nX-A: 2\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"hi")
    (request,) = world.echo.seen
    assert (request.headers["host"], request.headers["x-a"]) == ("here", "1")
    assert "authorization" not in request.headers


@pytest.mark.parametrize("second", [b"Host: there", b"host:here", b"HOST: "])
async def test_two_hosts_are_refused(world: World, second: bytes) -> None:
    """400, and the handler never hears of it; the next request may have its one."""
    once = b"GET /echo HTTP/1.1\r\nHost: here\r\n"
    answer = await raw(world, once + second + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert world.echo.seen == []
    answer = await raw(world, once + b"\r\n" + once + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 2


async def test_a_header_without_end_is_cut_off(world: World) -> None:
    """Headers are bounded: a client cannot make the server remember without limit."""
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(b"GET /echo HTTP/1.1\r\n" + b"x-a: " + b"y" * listening.HEADER_BYTES + b"\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_connection_that_never_asks_is_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence before a whole header has an end."""
    monkeypatch.setattr(listening, "HEADER_SECONDS", 0.05)
    for start in (b"", b"GET /echo HTTP/1.1\r\nhost:"):
        reader, writer = await asyncio.open_unix_connection(str(world.path))
        writer.write(start)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


HALF = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"


@pytest.mark.slow
async def test_a_body_that_stops_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence within a body has an end; one that comes in pieces may take longer than that."""
    monkeypatch.setattr(listening, "BODY_SECONDS", 0.3)
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(HALF)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(HALF)
    for letter in (b"-", b"s", b"e", b"n", b"t"):
        await asyncio.sleep(0.1)
        writer.write(letter)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.slow
async def test_a_body_that_drips_is_answered_and_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However steadily it comes, a request has to be whole some time."""
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.2)
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(HALF)
    answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith(b"HTTP/1.1 504")
    assert b'"reason":"Timeout"' in answer
    writer.close()


@pytest.mark.slow
async def test_the_rest_of_a_refused_body_is_not_read_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is answered a drip does not keep the connection."""
    monkeypatch.setattr(listening, "BODY_SECONDS", 0.3)
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(HALF.replace(b"length: 9", b"length: %d" % (BODY_LIMIT + 1)))
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")

    async def drip() -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.1)

    dripping = asyncio.create_task(drip())
    with contextlib.suppress(ConnectionError):  # the drip met a closed door
        await asyncio.wait_for(reader.read(), 5)
    dripping.cancel()
    writer.close()


@pytest.mark.slow
async def test_empty_lines_do_not_keep_a_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a request, line ends that begin no other are as good as silence."""
    monkeypatch.setattr(listening, "HEADER_SECONDS", 0.2)
    reader, writer = await asyncio.open_unix_connection(str(world.path))
    writer.write(HALF + b"-sent\r\n")
    await reader.readuntil(b"half-sent")
    for _ in range(3):
        writer.write(b"\r\n")
        await asyncio.sleep(0.05)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


@pytest.mark.slow
async def test_a_session_outlives_every_deadline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has become a WebSocket is not a request that is late."""
    import websockets

    for name in ("HEADER_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(listening, name, 0.1)
    subprotocols = [websockets.Subprotocol("v5.channel.k8s.io")]
    path = str(world.path)
    async with websockets.unix_connect(path, "ws://local/exec", subprotocols=subprotocols) as peer:
        await asyncio.sleep(0.4)
        await peer.send(b"abc")
        assert await peer.recv() == b"cba"


def test_the_kept_port_is_taken_first_and_the_next_free_one_if_it_is_busy() -> None:
    """A restart listens where the kubeconfig says; a port asked for by name is that one or none."""
    with serving.bind_tcp("127.0.0.1", 0, None) as taken:
        busy = taken.getsockname()[1]
        with serving.bind_tcp("127.0.0.1", None, busy) as moved:
            assert moved.getsockname()[1] != busy
        with pytest.raises(listening.ListenError, match=str(busy)):
            serving.bind_tcp("127.0.0.1", busy, None)
    with serving.bind_tcp("127.0.0.1", None, busy) as kept:
        assert kept.getsockname()[1] == busy


def test_an_address_is_an_address() -> None:
    """Names are not resolved: the certificate must name what was bound."""
    with pytest.raises(listening.ListenError, match="not an IP address"):
        serving.bind_tcp("localhost", 0, None)
    with serving.bind_tcp("::1", 0, None) as bound:
        assert bound.family == socket.AF_INET6


def test_a_dead_process_leaves_a_socket_that_is_no_obstacle(tmp_path: Path) -> None:
    """The socket file of a killed `up` is replaced; a name that is too long is explained."""
    serving.bind_unix(tmp_path / "s").close()
    with serving.bind_unix(tmp_path / "s") as again:
        assert again.family == socket.AF_UNIX
    (tmp_path / "d").mkdir()
    with pytest.raises(listening.ListenError, match="d is in the way: it is not a socket"):
        serving.bind_unix(tmp_path / "d")
    with pytest.raises(listening.ListenError, match="shorter"):
        serving.bind_unix(tmp_path / ("x" * 120))
