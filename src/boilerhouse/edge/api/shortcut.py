"""The short way to a handler, for a request that needs nothing of the framework.

Litestar's router ─► Shortcut ─► guard ─► body ─► handler ─► answer
                        └── whatever is not plain ─► Litestar's own way

Litestar's way from a route to its handler and back serves every kind of parameter and of answer,
and costs more than all other HTTP of a warm claim. A handler that is called often has this class
as its middleware: a request without a query, with a body that is what the handler takes, is handed
to it at once. Everything else, above all everything that is wrong with a request, is left to
Litestar: no rule about what is accepted or refused is written a second time.

Such a handler takes the parts of its path, `data`, `house` and `request`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.serialization import encode_json
from litestar.types import ASGIApp, Receive, Scope, Send

from boilerhouse.edge.api.auth import admit

LENGTH = 64 << 10  # bytes of a body; a longer one is Litestar's to read, or to refuse


class Shortcut:
    """A middleware of one handler."""

    def __init__(self, app: ASGIApp) -> None:
        self.long_way = app
        self._decoder: msgspec.json.Decoder[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            await self.long_way(scope, receive, send)
            return
        handler: Any = scope["route_handler"]
        state = scope["litestar_app"].state
        await admit(state["auth"], scope, handler.opt["scope"])
        messages = await _read(receive)
        data = self._decoded(messages, handler)
        if data is None:
            await self.long_way(scope, _again(messages, receive), send)
            return
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        given = await handler.fn(
            **scope["path_params"], data=data, house=state["house"], request=request
        )
        if type(given) is not Response or given.headers:
            answer = await handler.to_response(scope["litestar_app"], given, request)
            await answer(scope, receive, send)
            return
        body = encode_json(given.content)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        status = given.status_code or handler.status_code
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _decoded(self, messages: list[Any], handler: HTTPRouteHandler) -> Any:
        """Return a body as the handler takes it; None if it is not plainly that."""
        last = messages[-1]
        if last["type"] != "http.request" or last.get("more_body"):
            return None
        body = b"".join([message["body"] for message in messages])
        if len(body) > LENGTH:
            return None
        if self._decoder is None:
            kind = handler.parsed_fn_signature.parameters["data"].annotation
            self._decoder = msgspec.json.Decoder(kind, strict=False)
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None


async def _read(receive: Receive) -> list[Any]:
    """Return the messages of a body, or those of its beginning if it is long."""
    messages: list[Any] = []
    left = LENGTH
    while left >= 0:
        message: Any = await receive()
        messages.append(message)
        if not message.get("more_body"):
            break
        left -= len(message["body"])
    return messages


def _again(messages: list[Any], receive: Receive) -> Receive:
    """Return what receives these messages once more, and then those that follow."""

    async def receiving() -> Any:
        return messages.pop(0) if messages else await receive()

    return receiving
