"""/events (SSE) and /ws: the feed, for programs and for browsers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec
from litestar import get, websocket
from litestar.params import QueryParameter

from boilerhouse.edge.api.auth import ADMIN, SUBPROTOCOL, Call, caller_of
from boilerhouse.edge.api.events import Event, Feed, Overrun
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.sockets import GOING_AWAY, OVERRUN, Peer, answering, first_to_end
from boilerhouse.edge.api.streaming import Streaming

LastEventId = Annotated[str, QueryParameter(name="lastEventId")]

EVENTS = "boilerhouse.events"  # as a subprotocol: an answer to who had to offer one


@get(f"{V1}/events", opt={"scope": ADMIN}, media_type="text/event-stream")
async def stream_events(
    services: TheServices, request: Call, last_event_id: LastEventId = ""
) -> Streaming:
    """Stream what happens as server-sent events; `Last-Event-ID` goes on after a break."""
    opened = AsyncExitStack()
    opened.enter_context(services.listeners.place(caller_of(request)))
    last = request.headers.get("last-event-id", last_event_id)
    events = _sse(services.feed, last)
    return Streaming(services.streams, events, media_type="text/event-stream", opened=opened)


async def _sse(feed: Feed, last: str) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    try:
        async for event in feed.subscribe(last):
            yield b": heartbeat\n\n" if event is None else _frame(event)
    except Overrun:
        # No id: the client comes back with the last one it really saw.
        yield b'event: overrun\ndata: {"type":"overrun"}\n\n'


def _frame(event: Event) -> bytes:
    data = msgspec.json.encode(event.body)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.type.encode(), data)


@websocket("/ws", opt={"scope": ADMIN})
async def events_socket(
    services: TheServices, socket: Peer, last_event_id: LastEventId = ""
) -> None:
    """Send what happens as JSON texts; `lastEventId` goes on after a break."""
    async with answering(socket):
        with services.listeners.place(caller_of(socket)):
            await _told(services, socket, last_event_id)


async def _told(services: Services, socket: Peer, last_event_id: str) -> None:
    offered = socket.scope["subprotocols"]
    await socket.accept(
        subprotocols=EVENTS
        if EVENTS in offered or any(one.startswith(SUBPROTOCOL) for one in offered)
        else None
    )
    try:
        with services.streams.cancelling():
            await first_to_end(_send(services.feed, socket, last_event_id), _drain(socket))
    except Overrun:
        await socket.close(code=OVERRUN, reason="too slow: resume with lastEventId")
    else:
        await socket.close(code=GOING_AWAY)


async def _send(feed: Feed, socket: Peer, last: str) -> None:
    async for event in feed.subscribe(last):
        body = {"type": "heartbeat"} if event is None else event.body
        await socket.send_data(msgspec.json.encode(body), mode="text")


async def _drain(socket: Peer) -> None:
    while True:
        await socket.receive_data(mode="text")
