"""One question to a container: does it answer? By HTTP, by TCP, or by running a command in it.

probe of a spec ─► check() ─► None, or why not
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.sandbox.process import Container

Body = Mapping[str, Any]
Check = Callable[[], Awaitable[str | None]]
_OUTPUT = 1024  # of a failed command, for its message
_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """A container that can be asked."""

    address: str
    connect: Callable[[int], Awaitable[socket.socket]]
    ports: Mapping[str, int]  # by name
    running: Container | None  # None: built in, no commands run there
    # Set by a built-in container that would answer otherwise by now: it need not be asked so often.
    news: asyncio.Event | None = None


def checking(probe: Body, subject: Subject) -> Check:
    """Return the question that a probe asks; an answer that takes too long is none."""
    timeout = float(probe.get("timeoutSeconds", 1))

    async def ask() -> str | None:
        try:
            async with asyncio.timeout(timeout):
                return await _ask(probe, subject)
        except TimeoutError:
            return f"{_about(probe, subject)}no answer within {timeout:g} s"
        except (OSError, SandboxError, EOFError) as error:
            return f"{_about(probe, subject)}{_words(error)}"

    return ask


async def _ask(probe: Body, subject: Subject) -> str | None:
    if "httpGet" in probe:
        return await _http(probe["httpGet"], subject)
    if "tcpSocket" in probe:
        (await subject.connect(port_of(probe["tcpSocket"]["port"], subject))).close()
        return None
    return await _command(probe["exec"].get("command", []), subject)


def _about(probe: Body, subject: Subject) -> str:
    """Say what was asked, as a real kubelet does; nothing for a command."""
    action = probe.get("httpGet") or probe.get("tcpSocket")
    if action is None:
        return ""
    where = action["port"]
    if not isinstance(where, int):
        where = subject.ports.get(where, where)
    asked = f"dial tcp {subject.address}:{where}: "
    if "httpGet" in probe:
        scheme = str(action.get("scheme", "HTTP")).lower()
        asked = f'Get "{scheme}://{subject.address}:{where}{_path(action)}": {asked}'
    return asked


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"connect: {os.strerror(error.errno).lower()}"
    return str(error) or type(error).__name__


def _path(action: Body) -> str:
    return quote(action.get("path") or "/", safe="/?&=%:+,;@!$*()~")


def port_of(port: int | str, subject: Subject) -> int:
    """Return a port by number or by the name that the container gave it."""
    if isinstance(port, int):
        return port
    if port in subject.ports:
        return subject.ports[port]
    raise ConnectionRefusedError(f"the container has no port named {port!r}")


async def _http(action: Body, subject: Subject) -> str | None:
    port = port_of(action["port"], subject)
    headers = {"host": f"{subject.address}:{port}", "user-agent": "kube-probe/boilerhouse"}
    headers |= {"accept": "*/*", "connection": "close"}
    for header in action.get("httpHeaders", ()):
        headers[header["name"].lower()] = header.get("value", "")
    head = f"GET {_path(action)} HTTP/1.1\r\n"
    head += "".join(f"{name}: {_one_line(value)}\r\n" for name, value in headers.items())
    tls = _unverified() if action.get("scheme") == "HTTPS" else None
    made = await subject.connect(port)
    try:
        reader, writer = await asyncio.open_connection(
            sock=made, ssl=tls, server_hostname="" if tls else None, limit=_HEAD_BYTES
        )
    except BaseException:
        made.close()
        raise
    try:
        writer.write(head.encode("utf-8", "surrogateescape") + b"\r\n")
        first = await reader.readline()
    except ValueError:
        return "the answer is not HTTP"
    finally:
        writer.transport.abort()
    words = first.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return "the answer is not HTTP"
    code = int(words[1])
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _unverified() -> ssl.SSLContext:
    # A probe asks whether it answers, not who it is; certificates of Pods name other hosts.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _command(command: list[str], subject: Subject) -> str | None:
    if subject.running is None:
        return "a built-in container runs no commands"
    process = await subject.running.exec(command)
    try:
        said = bytearray()

        async def listen(stream: str) -> None:
            while data := await process.read("stdout" if stream == "stdout" else "stderr"):
                said.extend(data[: max(0, _OUTPUT - len(said))])

        listening = [asyncio.create_task(listen(name)) for name in ("stdout", "stderr")]
        try:
            code = await process.wait()
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
    finally:
        await process.close()
    if code == 0:
        return None
    return f"command exited with {code}: {said.decode(errors='replace').strip()}".rstrip(": ")
