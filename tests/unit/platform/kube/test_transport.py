"""HTTP on loopback: sockets, TLS, credentials that change, deadlines, limits, broken peers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import Config
from boilerhouse.platform.kube.credentials import Certificate, Credential, Files, Static, bearer
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    NotFound,
    Unauthorized,
    Unavailable,
)
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.kube.wire import Request
from tests.unit.platform.kube.certificates import Authority
from tests.unit.platform.kube.servers import Exchange, pod, serving, status

GET = Request("GET", "/x")


async def echo(exchange: Exchange) -> None:
    await exchange.reply(200, {"target": exchange.target, "headers": exchange.headers})


async def call(config: Config, request: Request = GET) -> bytes:
    http = Http(config)
    try:
        return (await http.request(request)).body
    finally:
        await http.close()


async def test_a_unix_socket_is_an_address_too(tmp_path: Path) -> None:
    """The embedded API is reached by the path of its socket."""
    async with serving(echo, unix=tmp_path / "kube.sock") as address:
        assert b'"/x"' in await call(Config(address))


async def test_paths_and_queries_arrive_as_they_were_meant() -> None:
    """Blanks, percent signs, slashes in values and letters beyond ASCII survive the wire."""
    seen = ""

    async def handler(exchange: Exchange) -> None:
        nonlocal seen
        seen = exchange.target
        await exchange.reply(200)

    request = Request("GET", "/a b/100%/ü/x:80", (("q", "a=b&c d/%2F"), ("q", "é+")))
    async with serving(handler) as address:
        await call(Config(address + "/prefix/"), request)
    assert seen == "/prefix/a%20b/100%25/%C3%BC/x:80?q=a%3Db%26c%20d%2F%252F&q=%C3%A9%2B"


async def test_dot_segments_are_refused() -> None:
    """A URL library would resolve them, and something else would be called than was checked."""
    async with serving(echo) as address:
        with pytest.raises(BadRequest):
            await call(Config(address), Request("GET", "/a/../b"))


async def test_nobody_listening_is_unavailable() -> None:
    """A refused connection is `Unavailable`, with the call in its message."""
    with pytest.raises(Unavailable, match="GET /x"):
        await call(Config("http://127.0.0.1:1"))
    with pytest.raises(Unavailable):
        await call(Config("unix:///nonexistent/kube.sock"))


async def test_a_call_has_a_deadline() -> None:
    """A server that takes the request and never answers is given up."""

    async def silent(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async with serving(silent) as address:
        http = Http(Config(address))
        with pytest.raises(Unavailable, match=r"no answer within 0\.1 s"):
            await http.request(GET, timeout=0.1)
        await http.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_reply_that_is_not_http_or_breaks_off_is_unavailable(raw: bytes) -> None:
    """However a reply is torn, the caller sees one kind of error."""

    async def handler(exchange: Exchange) -> None:
        await exchange.send(raw)
        exchange.hang_up()

    async with serving(handler) as address:
        with pytest.raises(Unavailable):
            await call(Config(address))


async def test_an_endless_reply_is_cut_off() -> None:
    """A reply beyond the limit is an error, not an exhausted memory."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        while True:
            await exchange.chunk(b"x" * 1000)

    async with serving(handler) as address:
        http = Http(Config(address), body_limit=10_000)
        with pytest.raises(ApiError, match="larger than 10000 bytes"):
            await http.request(GET)
        await http.close()


async def test_connections_are_used_again() -> None:
    """Calls one after the other share a connection."""
    writers = set()

    async def handler(exchange: Exchange) -> None:
        writers.add(id(exchange.writer))
        await exchange.reply(200)

    async with serving(handler) as address:
        http = Http(Config(address))
        for _ in range(5):
            await http.request(GET)
        await http.close()
    assert len(writers) == 1


async def test_a_connection_closed_while_idle_is_not_used() -> None:
    """A server that hangs up between two calls costs nobody an error."""

    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200)
        exchange.hang_up()

    async with serving(handler) as address:
        http = Http(Config(address))
        for _ in range(5):
            assert (await http.request(Request("POST", "/x", body=b"{}"))).status == 200
            await asyncio.sleep(0.01)  # the FIN has to arrive
        await http.close()


async def test_streams_do_not_starve_calls() -> None:
    """However many watches are open, a write finds a connection."""

    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/watch":
            await exchange.begin()
            await asyncio.sleep(60)
        await exchange.reply(200)

    async with serving(handler) as address:
        http = Http(Config(address))
        opened = []
        for _ in range(100):
            stream = http.stream(Request("GET", "/watch"), read_timeout=30)
            await stream.__aenter__()
            opened.append(stream)
        assert (await http.request(GET, timeout=5)).status == 200
        for stream in opened:
            await stream.__aexit__(None, None, None)
        await http.close()


async def test_silence_in_a_stream_is_noticed() -> None:
    """A peer that stops in the middle, without a FIN, ends the stream after `read_timeout`."""

    async def handler(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(b"one\n")
        await asyncio.sleep(60)

    async with serving(handler) as address:
        http = Http(Config(address))
        got = []
        with pytest.raises(Unavailable, match="ReadTimeout"):
            async with http.stream(GET, read_timeout=0.1) as stream:
                async for chunk in stream.chunks:
                    got.append(chunk)  # noqa: PERF401 - what came before the error counts
        assert got == [b"one\n"]
        await http.close()


# -- credentials ---------------------------------------------------------------------------------


def guarded(accepted: Callable[[], str]) -> Callable[[Exchange], Awaitable[None]]:
    async def handler(exchange: Exchange) -> None:
        if exchange.headers.get("authorization") != f"Bearer {accepted()}":
            await exchange.reply(401, status(401, "Unauthorized"))
        else:
            await exchange.reply(200, pod("x", 1))

    return handler


async def test_a_token_file_is_read_again_when_the_server_says_401(tmp_path: Path) -> None:
    """A token that was rotated under us costs one more round trip and no error."""
    token = tmp_path / "token"
    token.write_text("one\n")
    accepted = "one"
    async with serving(guarded(lambda: accepted)) as address:
        api = Client(Http(Config(address, credentials=Files(token=token))))
        assert (await api.get(PODS, "x")).metadata.name == "x"
        accepted = "two"
        token.write_text("two\n")
        assert (await api.get(PODS, "x")).metadata.name == "x"
        await api.close()


async def test_a_401_with_the_same_token_is_final(tmp_path: Path) -> None:
    """If nothing fresher is to be had, the refusal is passed on, without a second try."""
    tries = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal tries
        tries += 1
        await exchange.reply(401, status(401, "Unauthorized"))

    token = tmp_path / "token"
    token.write_text("one")
    async with serving(handler) as address:
        api = Client(Http(Config(address, credentials=Files(token=token))))
        with pytest.raises(Unauthorized):
            await api.get(PODS, "x")
        await api.close()
    assert tries == 1


async def test_a_token_file_that_vanished_is_a_clear_error(tmp_path: Path) -> None:
    """The path is in the message."""
    credentials = Files(token=tmp_path / "token")
    with pytest.raises(Unauthorized, match=str(tmp_path / "token")):
        await call(Config("http://127.0.0.1:1", credentials=credentials))


async def test_streams_renew_their_token_too(tmp_path: Path) -> None:
    """A watch opened with an old token is opened again with the new one."""
    token = tmp_path / "token"
    token.write_text("old")
    files = Files(token=token)
    async with serving(guarded(lambda: "new")) as address:
        http = Http(Config(address, credentials=files))
        await files.current()
        token.write_text("new")
        async with http.stream(GET, read_timeout=5) as stream:
            assert stream.status == 200
        await http.close()


async def test_impersonation_goes_with_every_call() -> None:
    """Who is impersonated is said in headers, beside our own credentials."""
    seen = b""

    async def handler(exchange: Exchange) -> None:
        nonlocal seen
        seen = "|".join(f"{k}={v}" for k, v in exchange.headers.items()).encode()
        await exchange.reply(200)

    headers = (("impersonate-user", "ann"), ("impersonate-group", "dev"))
    async with serving(handler) as address:
        await call(Config(address, headers=headers))
    assert b"impersonate-user=ann" in seen
    assert b"impersonate-group=dev" in seen


async def test_a_proxy_is_asked_on_the_way() -> None:
    """With proxy-url the proxy is dialled and told the whole address."""
    seen = ""

    async def handler(exchange: Exchange) -> None:
        nonlocal seen
        seen = f"{exchange.method} {exchange.target}"
        await exchange.reply(200)

    async with serving(handler) as proxy:
        await call(Config("http://kube.example:8001", proxy=proxy))
    assert seen == "GET http://kube.example:8001/x"


# -- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_tls_is_verified_against_the_given_authority(authority: Authority) -> None:
    """A server of another authority is refused, unless verification was switched off."""
    async with serving(echo, tls=authority.server("127.0.0.1")) as address:
        assert await call(Config(address, ca=authority.pem))
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await call(Config(address, ca=Authority().pem))
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await call(Config(address))
        assert await call(Config(address, insecure=True))


async def test_the_name_in_the_certificate_counts(authority: Authority) -> None:
    """tls-server-name is what the certificate must say, whatever address is dialled."""
    async with serving(echo, tls=authority.server("kube.example")) as address:
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await call(Config(address, ca=authority.pem))
        assert await call(Config(address, ca=authority.pem, server_name="kube.example"))


async def test_a_client_certificate_is_shown_and_its_successor_after_a_401(
    authority: Authority, tmp_path: Path
) -> None:
    """Certificates in files are rotated like tokens: new connections are made with the new one."""
    accepted = "ann"

    async def handler(exchange: Exchange) -> None:
        shown = exchange.writer.get_extra_info("ssl_object").getpeercert()
        name = dict(pair[0] for pair in shown["subject"])["commonName"]
        await exchange.reply(200 if name == accepted else 401, pod(name, 1))

    def write(name: str) -> None:
        pair = authority.issue(name)
        (tmp_path / "cert").write_bytes(pair.certificate)
        (tmp_path / "key").write_bytes(pair.key)

    write("ann")
    context = authority.server("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem.decode())
    credentials = Files(certificate=tmp_path / "cert", key=tmp_path / "key")
    async with serving(handler, tls=context) as address:
        api = Client(Http(Config(address, ca=authority.pem, credentials=credentials)))
        assert (await api.get(PODS, "x")).metadata.name == "ann"
        accepted = "bob"
        write("bob")
        assert (await api.get(PODS, "x")).metadata.name == "bob"
        await api.close()


async def test_a_broken_client_certificate_is_a_clear_error(authority: Authority) -> None:
    """What is not a certificate is refused before anything is sent."""
    credentials = Static(Credential((bearer("t"),), Certificate(b"junk", b"junk")))
    with pytest.raises(BadRequest, match="unusable certificates"):
        await call(Config("https://127.0.0.1:1", ca=authority.pem, credentials=credentials))
    with pytest.raises(BadRequest, match="unusable certificates"):
        await call(Config("https://127.0.0.1:1", ca=b"junk"))


async def test_a_refused_upgrade_is_the_servers_error() -> None:
    """exec on a Pod that is not there is NotFound, as for any other verb."""

    async def handler(exchange: Exchange) -> None:
        assert exchange.headers["sec-websocket-protocol"] == "v5.channel.k8s.io, v4.channel.k8s.io"
        await exchange.reply(404, status(404, "NotFound", 'pods "x" not found'))

    async with serving(handler) as address:
        api = Client(Http(Config(address)))
        with pytest.raises(NotFound, match="not found"):
            async with api.pods.exec("x", ["true"]):
                pass
        await api.close()
