"""Claims that ask what is current while an archive is uploaded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from boilerhouse.node.helper import wire
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.wire import Version
from boilerhouse.platform.rpc.message import Body
from tests.unit.node.helper.archives import archive
from tests.unit.node.helper.bench import Bench, working
from tests.unit.node.helper.operations.test_saving import refused
from tests.unit.node.helper.test_archives import WHOSE, put

OLD, NEW, OTHER = (archive({"a": word}) for word in (b"old", b"new", b"other"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with working(tmp_path / "snapshots") as made:
        yield made


class Slow(Body):
    """A body that stops in its midst until it is let come; `begun` says that it has."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.length = len(content)
        self.begun, self.rest = asyncio.Event(), asyncio.Event()
        self._pieces = [content[:10], content[10:]]

    async def __anext__(self) -> bytes:
        if len(self._pieces) == 1:
            self.begun.set()
            await self.rest.wait()
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop(0)


async def begin(bench: Bench, content: bytes) -> tuple[Slow, asyncio.Task[bytes]]:
    body = Slow(content)
    uploading = asyncio.create_task(bench.read("PUT", wire.ARCHIVE, *WHOSE, body=body))
    await body.begun.wait()
    return body, uploading


@pytest.mark.parametrize("stored", [True, False])
async def test_an_upload_gives_way_to_a_claim(bench: Bench, stored: bool) -> None:
    """A claim was told what there is, so that stays; put again while nobody asks, it is taken."""
    if stored:
        await put(bench, OLD)
    before = await bench.current()
    body, uploading = await begin(bench, NEW)
    assert await bench.current(claim=True) == before
    body.rest.set()
    error = await refused("in-use", asyncio.wait_for(uploading, 60))
    assert (error.status, "release it first" in str(error)) == (409, True)
    assert await bench.current() == before
    assert not bench.leftovers()
    await put(bench, NEW)
    assert bench.file() == NEW


async def test_who_only_looks_is_no_claim(bench: Bench) -> None:
    """Neither are claims of another tenant, nor those that asked before."""
    await put(bench, OLD)
    await bench.current(claim=True)
    body, uploading = await begin(bench, NEW)
    await bench.current()
    await bench.current("ben", claim=True)
    body.rest.set()
    await uploading
    assert bench.file() == NEW


async def test_each_upload_counts_for_itself(bench: Bench) -> None:
    """One that began after the claim had asked is not refused for it: that is for who began it."""
    first, uploading = await begin(bench, NEW)
    await bench.current(claim=True)
    second, later = await begin(bench, OTHER)
    first.rest.set()
    await refused("in-use", asyncio.wait_for(uploading, 60))
    second.rest.set()
    await later
    assert bench.file() == OTHER


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_who_asks_during_the_commit_is_told_what_it_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, hangs_up: bool
) -> None:
    """Also if whoever uploaded is gone before it is through."""
    await put(bench, OLD)
    committing, go_on = held_up(monkeypatch, Store.put)
    body, uploading = await begin(bench, NEW)
    body.rest.set()
    await asyncio.to_thread(committing.wait)
    asking = asyncio.create_task(bench.current(claim=True))
    assert (await bench.current()) is not None  # who only looks does not wait
    if hangs_up:
        uploading.cancel()
    await asyncio.sleep(0)
    assert not asking.done()
    go_on.set()
    told = await asking
    await asyncio.wait({uploading})
    assert told is not None
    assert uploading.cancelled() if hangs_up else Version.decode(uploading.result()) == told
    assert bench.file() == NEW
    assert told == await bench.current()


async def test_who_asks_during_a_promotion_is_told_what_it_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the version through takes its time, and a claim waits for it."""
    first = await put(bench, OLD)
    await put(bench, NEW)
    committing, go_on = held_up(monkeypatch, Store.promote)
    promoting = asyncio.create_task(bench.promote(first.seq))
    await asyncio.to_thread(committing.wait)
    asking = asyncio.create_task(bench.current(claim=True))
    await asyncio.sleep(0)
    assert not asking.done()
    go_on.set()
    assert await asking == await promoting
    assert bench.file() == OLD


async def test_a_look_up_that_reads_the_disk_is_noted_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that begins while it reads is refused, not told past it."""
    await put(bench, OLD)
    before = await bench.current()
    monkeypatch.setattr(Store, "peek", forgetful(Store.peek))
    reading, go_on = held_up(monkeypatch, Store.shelf)
    asking = asyncio.create_task(bench.current(claim=True))
    await asyncio.to_thread(reading.wait)
    body, uploading = await begin(bench, NEW)
    go_on.set()
    assert await asking == before
    body.rest.set()
    await refused("in-use", asyncio.wait_for(uploading, 60))
    assert bench.file() == OLD


def held_up(
    monkeypatch: pytest.MonkeyPatch, verb: Callable[..., object]
) -> tuple[threading.Event, threading.Event]:
    """Have a verb of the store say when it is called, and wait for the word."""
    called, go_on = threading.Event(), threading.Event()

    def waiting(*args: object, **kwargs: object) -> object:
        called.set()
        go_on.wait(60)
        return verb(*args, **kwargs)

    monkeypatch.setattr(Store, verb.__name__, waiting)
    return called, go_on


def forgetful(peek: Callable[..., object]) -> Callable[..., object]:
    """The first look finds nothing in memory."""
    asked: list[object] = []

    def looking(*args: object) -> object:
        asked.append(args)
        return peek(*args) if len(asked) > 1 else None

    return looking
