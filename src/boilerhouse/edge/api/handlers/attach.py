"""/instances/{id}/attach: a terminal in an instance, in the bytes that Kubernetes itself uses.

caller's WebSocket ◄─► channel messages, unread ◄─► pods/exec or pods/attach

With `command` (repeated) that command is run; without, the tenant's own program is attached to.
"""

from __future__ import annotations

from litestar import websocket
from litestar.params import FromPath, FromQuery

from boilerhouse.edge.api.auth import INSTANCES_EXEC, caller_of
from boilerhouse.edge.api.commands import refuse_dead
from boilerhouse.edge.api.errors import not_found
from boilerhouse.edge.api.handlers.instances import tenant_of, visible
from boilerhouse.edge.api.handlers.logs import tenant_container
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import TheServices
from boilerhouse.edge.api.sockets import Peer, answering, first_to_end
from boilerhouse.platform.kube.exec import PROTOCOLS, Channel
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.wire import Request, Socket

Command = FromQuery[list[str] | None]


@websocket(f"{V1}/instances/{{name:str}}/attach", opt={"scope": INSTANCES_EXEC})
async def attach_instance(
    name: FromPath[str],
    services: TheServices,
    socket: Peer,
    command: Command = None,
    stdin: FromQuery[bool] = True,
    tty: FromQuery[bool] = False,
) -> None:
    """Join the caller to a command in the instance until either end has had enough."""
    async with answering(socket):
        with services.streams.cancelling():
            pod = await services.instance(name)
            if not visible(caller_of(socket), pod):
                raise not_found("Instance", name)
            refuse_dead(pod, services.claim_of(pod))
            await services.wait_for_identity(pod)
            query = [("command", part) for part in command or ()]
            query += [("stdin", str(stdin).lower()), ("tty", str(tty).lower())]
            query += [("stdout", "true"), ("stderr", str(not tty).lower())]
            query += [("container", tenant_container(pod))]
            path = PODS.path(services.client.namespace, name, "exec" if command else "attach")
            offered = tuple(p for p in PROTOCOLS if p in socket.scope["subprotocols"])
            with services.commands.place(caller_of(socket), tenant_of(pod)):
                async with (
                    services.activity.busy(services.claim_of(pod)),
                    services.client.transport.socket(
                        Request("GET", path, tuple(query)), offered or PROTOCOLS
                    ) as inner,
                ):
                    chosen = inner.subprotocol if inner.subprotocol in offered else None
                    await socket.accept(subprotocols=chosen)
                    await first_to_end(_inward(socket, inner), _outward(socket, inner))
        await socket.close()


async def _inward(socket: Peer, inner: Socket) -> None:
    while True:
        message = await socket.receive_data(mode="binary")
        await inner.send(message)


async def _outward(socket: Peer, inner: Socket) -> None:
    while (message := await inner.receive()) is not None:
        if len(message) > 1 or (message and message[0] != Channel.STDIN):
            await socket.send_data(message, mode="binary")
