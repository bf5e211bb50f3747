"""The way in: a listener at the Pod's own loopback address, each connection carried inside.

    client ─► 127.x.y.z:port (machine) ─► Forwarder ─► 127.x.y.z:port (Pod's namespace) ─► tenant

Each direction is read only as fast as the other side takes it, and ended on its own (half-close).
All Pods together have the connections of `connections.PODS`, one Pod a quarter of them: at its own
bound a Pod refuses, at that of all of them accepting waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from functools import partial

from boilerhouse.core.connections import PODS
from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.network.netns import PodNetwork
from boilerhouse.platform.serving.accepting import Acceptor, CountedSocket

_CONNECTIONS = 512
_LEAST, _PART = 4, 4  # of all connections one Pod has so many, or one part of so many
_CONNECT_SECONDS = 10.0
_RESET = struct.pack("ii", 1, 0)


class _Side(asyncio.Protocol):
    """One end of a carried connection; what it receives goes to `other`.

    What comes before the other end is there waits for `meet`. It is little: reading is paused, but
    asyncio of Python 3.11 may read once more although it was told so when the connection was made.
    """

    def __init__(self, *, held: bool) -> None:
        self.transport: asyncio.Transport | None = None
        self._held = held
        self.other: _Side | None = None
        self.closed = asyncio.Event()
        self._early: list[bytes] = []
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        carried: asyncio.Transport = transport  # type: ignore[assignment]  # always of a socket
        self.transport = carried
        if self._held:
            carried.pause_reading()

    def meet(self, other: asyncio.Transport) -> None:
        """Pass on what came before, if only the end of it, and go on reading."""
        for data in self._early:
            other.write(data)
        self._early.clear()
        if self.closed.is_set():
            other.close()
            return
        if self._ended and other.can_write_eof():
            other.write_eof()
        self.resume_reading()

    def resume_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self._ended = True
        other = self.other
        if other is not None and other.transport is not None and other.transport.can_write_eof():
            with contextlib.suppress(OSError):
                other.transport.write_eof()
        # Both directions over: close; else keep this side for what is still to be written to it.
        return not (other is not None and other._ended)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        other = self.other
        if other is None or other.transport is None:
            return
        if exc is not None:
            other.transport.abort()
        else:
            other.transport.close()


def listen_at(address: str, port: int) -> socket.socket:
    """Listen at an address, on another port if this one is taken; the caller owns the socket."""
    for number in (port, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            # Ports below 1024 are not an ordinary user's to listen on.
            if number == 0 or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return listener
    raise AssertionError("unreachable")


class Forwarder:
    """The listeners of one Pod."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network
        self._listeners: dict[int, tuple[Acceptor, socket.socket]] = {}
        self._carried: set[asyncio.Task[None]] = set()

    def listen(self, port: int) -> tuple[str, int]:
        """Listen at the Pod's address for `port` (another number if it is taken); return where."""
        if port not in self._listeners:
            try:
                listener = listen_at(self._network.address, port)
            except OSError as error:
                where = f"{self._network.address}:{port}"
                raise SandboxError(f"cannot listen on {where}: {error.strerror}") from error
            connected = partial(self._connected, port=port)
            acceptor = Acceptor(listener, PODS, connected, _none_is_idle)
            acceptor.start()
            self._listeners[port] = (acceptor, listener)
        host, number = self._listeners[port][1].getsockname()[:2]
        return str(host), int(number)

    def _connected(self, client: CountedSocket, port: int) -> None:
        if len(self._carried) >= min(_CONNECTIONS, max(_LEAST, PODS.most // _PART)):
            PODS.refused += 1
            _reset(client)
            return
        task = asyncio.get_running_loop().create_task(self._carry(client, port))
        self._carried.add(task)
        task.add_done_callback(self._carried.discard)

    async def _carry(self, client: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                inside = await self._network.connect(port)
        except (OSError, TimeoutError, SandboxError):
            _reset(client)
            return
        except BaseException:
            client.close()
            raise
        for end in (client, inside):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        outer, inner = _Side(held=False), _Side(held=True)
        outer.other, inner.other = inner, outer
        try:
            # The inner one first, silent until there is somebody to take what it says.
            await loop.connect_accepted_socket(lambda: inner, inside)
            reached, _ = await loop.connect_accepted_socket(lambda: outer, client)
            inner.meet(reached)
            await outer.closed.wait()
            await inner.closed.wait()
        except OSError:
            client.close()
        finally:
            for side, end in ((outer, client), (inner, inside)):
                if side.transport is not None:
                    side.transport.abort()
                else:
                    end.close()

    async def close(self) -> None:
        for acceptor, listener in self._listeners.values():
            acceptor.stop()
            listener.close()
        carried = list(self._carried)
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        self._listeners.clear()


def _none_is_idle() -> bool:
    """Close none: a silent connection may be what a program waits on."""
    return False


def _reset(client: socket.socket) -> None:
    """Close so that the client sees a refusal, not an empty answer."""
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    client.close()
