"""Who reads slowly, or not at all, costs little and delays nobody."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from boilerhouse.core.connections import ConnectionLimit
from boilerhouse.embedded.apiserver.http.asgi import Application
from boilerhouse.embedded.apiserver.http.serving import bind_unix
from boilerhouse.embedded.apiserver.inprocess import InProcess
from boilerhouse.embedded.apiserver.server import ApiServer
from boilerhouse.embedded.apiserver.storage.history import MAX_BATCH_BYTES
from boilerhouse.embedded.apiserver.storage.store import Store
from boilerhouse.platform.kube.wire import Request
from boilerhouse.platform.serving.listening import Listener
from tests.contract.driver import Api, Events

LARGE = 200_000
PATH = "/api/v1/namespaces/default/configmaps"


class House:
    """A served store with a small history."""

    def __init__(self, store: Store, server: ApiServer, path: Path) -> None:
        self.store = store
        self.server = server
        self.path = path
        self.api = Api(InProcess(server), "default")

    async def write(self, name: str, size: int = LARGE, n: int = 0) -> None:
        data = {"k": f"{n:05}" + "x" * size}
        (await self.api.patch("configmaps", name, {"data": data})).ok()

    async def make(self, *names: str, size: int = 10) -> None:
        for name in names:
            body = {"metadata": {"name": name}, "data": {"k": "x" * size}}
            (await self.api.create("configmaps", body)).ok()

    async def stall(self, query: str) -> socket.socket:
        """Begin a watch over the socket and never read a byte of it."""
        loop = asyncio.get_running_loop()
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.setblocking(False)
        await loop.sock_connect(peer, str(self.path))
        head = f"GET {PATH}?watch=1&{query} HTTP/1.1\r\nHost: local\r\n\r\n"
        await loop.sock_sendall(peer, head.encode())
        return peer

    def client(self) -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(uds=str(self.path))
        return httpx2.AsyncClient(base_url="http://local", transport=transport, timeout=30)


@asynccontextmanager
async def opened(directory: Path, **options: Any) -> AsyncIterator[House]:
    store = await Store.open(directory / "data", **options)
    server = ApiServer(store, SystemClock())
    await server.start()
    unix = bind_unix(directory / "kube.sock")
    application = Application(server, token=None, compress=False)
    listener = Listener(unix, application, ConnectionLimit("test"))
    await listener.start()
    try:
        yield House(store, server, directory / "kube.sock")
    finally:
        await listener.stop()
        await server.stop()
        await store.close()


@pytest.mark.slow
async def test_a_slow_reader_never_holds_up_a_writer_or_another_reader(tmp_path: Path) -> None:
    """Fifty watchers that read nothing: every write succeeds, a reader that reads gets them all,
    and who comes back to a stalled watch reads whole lines and then 410."""
    async with opened(tmp_path, history_bytes=10 * LARGE) as house:
        await house.make("a")
        since = house.store.revision
        stalled = [await house.stall(f"resourceVersion={since}") for _ in range(50)]
        async with (
            house.client() as client,
            client.stream("GET", f"{PATH}?watch=1&resourceVersion={since}") as stream,
        ):
            events = Events(stream.aiter_bytes())
            for n in range(40):
                async with asyncio.timeout(10):
                    await house.write("a", n=n)
                    _, body = await events.next()
                    assert body["data"]["k"].startswith(f"{n:05}")
        lines = (await read_to_end(stalled[0])).split(b"\n")
        last = json.loads(next(line for line in reversed(lines) if line.startswith(b"{")))
        assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
        for peer in stalled:
            peer.close()


async def read_to_end(peer: socket.socket) -> bytes:
    """Read a chunked answer until its last chunk, and return it without its framing."""
    reader, writer = await asyncio.open_unix_connection(sock=peer)
    await reader.readuntil(b"\r\n\r\n")
    pieces: list[bytes] = []
    async with asyncio.timeout(10):
        while size := int(await reader.readline(), 16):
            pieces.append(await reader.readexactly(size))
            await reader.readline()
    writer.close()
    return b"".join(pieces)


async def test_a_watcher_that_does_not_read_holds_little(tmp_path: Path) -> None:
    """However much there is to tell, a stalled watcher is given a few hundred kilobytes of it."""
    async with opened(tmp_path) as house:
        await house.make("a")
        since = house.store.revision
        for n in range(40):
            await house.write("a", n=n)
        sent = 0
        stalled = asyncio.Event()
        arriving: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        arriving.put_nowait({"type": "http.request", "body": b""})

        async def send(message: dict[str, object]) -> None:
            nonlocal sent
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            sent += len(body)
            if sent > 100_000:
                stalled.set()
                await asyncio.Event().wait()

        application = Application(house.server, token=None, compress=False)
        query = f"watch=1&resourceVersion={since}".encode()
        scope = {"type": "http", "method": "GET", "path": PATH, "query_string": query}
        watch = asyncio.create_task(application({**scope, "headers": []}, arriving.get, send))
        await asyncio.wait_for(stalled.wait(), 10)
        await house.write("a", n=40)
        assert 100_000 < sent < 200_000
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("selector", ["", "&labelSelector=nobody%3Dhas"])
async def test_one_that_catches_up_lets_others_run_in_between(
    tmp_path: Path, selector: str
) -> None:
    """A watch that resumes far back pauses after every batch, also when nothing is in its view."""
    async with opened(tmp_path) as house:
        await house.make("a")
        since = house.store.revision
        for n in range(60):
            await house.write("a", n=n)
        query = [("watch", "1"), ("resourceVersion", str(since)), ("timeoutSeconds", "1")]
        if selector:
            query.append(("labelSelector", "nobody=has"))
        request = Request("GET", PATH, tuple(query))
        turns = 0
        caught_up = asyncio.Event()

        async def others() -> None:
            nonlocal turns
            while not caught_up.is_set():
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(others())
        between: list[int] = []
        read = last = 0
        async with InProcess(house.server).stream(request) as stream:
            async for piece in stream.chunks:
                if turns != last:
                    between.append(read)
                    last, read = turns, 0
                read += len(piece)
        caught_up.set()
        await running
        if not selector:
            assert max(between) <= MAX_BATCH_BYTES + LARGE
        assert turns >= 30


async def test_a_watch_overrun_while_it_shows_the_first_objects_lets_them_go(
    tmp_path: Path,
) -> None:
    """Old versions do not stand with a reader that stands still: the rest of the list is dropped,
    the end of the list is never claimed, and the reader is told 410."""
    async with opened(tmp_path, history=20) as house:
        await house.make(*(f"c{n:03}" for n in range(30)), size=20_000)
        query = (("watch", "1"), ("sendInitialEvents", "true"), ("allowWatchBookmarks", "true"),
                 ("resourceVersionMatch", "NotOlderThan"))  # fmt: skip
        async with InProcess(house.server).stream(Request("GET", PATH, query)) as stream:
            events = Events(stream.chunks)
            assert (await events.next())[0] == "ADDED"
            for n in range(25):
                await house.write("c000", size=10, n=n)
            kinds: list[str] = []
            while not kinds or kinds[-1] == "ADDED":
                kind, body = await events.next()
                kinds.append(kind)
        assert (kinds[-1], body["code"]) == ("ERROR", 410)
        assert len(kinds) < 15
