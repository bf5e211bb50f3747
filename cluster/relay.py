"""Carries TCP from the host's loopback into the node's network namespace.

client ──► 127.0.0.1:<port> on the host ──► this process, inside the namespace ──► kube-apiserver

A listening socket stays in the namespace it was made in, so `up` makes it outside and hands it to
this process, whose own connections then start inside. No other listener crosses the border.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys


async def serve(listener: socket.socket, port: int) -> None:
    """Relay every connection to 127.0.0.1:<port> until cancelled."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, to = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, to), _pump(there, writer))
        to.close()
        writer.close()

    server = await asyncio.start_server(carry, sock=listener)
    async with server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction; its end is passed on as an end, its breakage as a breakage."""
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
    except OSError:
        writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))
