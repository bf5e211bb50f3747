"""Who we are to the API server, and how that is renewed while we run.

kubeconfig | service account ──► Credentials ──► Http: headers and client certificate of each call

Tokens and certificates are rotated under a running process. So nothing is read once and kept: a
file is looked at again every minute and whenever the server answers 401, and a plugin is run again
when its answer has expired or was refused.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from boilerhouse.core.clock import Clock, SystemClock, parse_time
from boilerhouse.platform.kube.status import Unauthorized

FILE_MAX_AGE = 60.0  # seconds; kubelet rewrites a projected token long before it expires
PLUGIN_TIMEOUT = 60.0
PLUGIN_OUTPUT_LIMIT = 1 << 20
EXPIRY_MARGIN = timedelta(seconds=10)


class Certificate(NamedTuple):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Credential:
    """What one call is sent with."""

    headers: tuple[tuple[str, str], ...] = ()
    certificate: Certificate | None = None


NOTHING = Credential()


class Credentials(Protocol):
    async def current(self) -> Credential: ...

    async def renew(self, refused: Credential) -> None:
        """Note that the server refused a credential, so that the next one is fresh.

        Many calls may be refused at once: all but the first find the refused one replaced already.
        """
        ...


class Static:
    """What never changes: a token or certificate written in the kubeconfig itself, or nothing."""

    def __init__(self, credential: Credential = NOTHING) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    async def renew(self, refused: Credential) -> None:
        """Do nothing: there is nowhere to get another from."""


class Files:
    """A bearer token and/or a client certificate in files that somebody else keeps fresh."""

    def __init__(
        self,
        *,
        token: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        base: Credential = NOTHING,
    ) -> None:
        self._token = token
        self._pair = (certificate, key)
        self._base = base
        self._read_at: float | None = None
        self._credential = base

    async def current(self) -> Credential:
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at > FILE_MAX_AGE:
            self._credential = await asyncio.to_thread(self._read)
            self._read_at = now
        return self._credential

    async def renew(self, refused: Credential) -> None:
        if refused == self._credential:
            self._read_at = None

    def _read(self) -> Credential:
        headers, certificate = self._base.headers, self._base.certificate
        try:
            if self._token is not None:
                headers += (bearer(self._token.read_text().strip()),)
            if self._pair[0] is not None and self._pair[1] is not None:
                certificate = Certificate(self._pair[0].read_bytes(), self._pair[1].read_bytes())
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"credentials cannot be read: {error}") from error
        return Credential(headers, certificate)


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


@dataclass(frozen=True)
class PluginCommand:
    """The `exec` section of a kubeconfig user."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None  # only with provideClusterInfo


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _PluginAnswer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _PluginStatus | None = None


class Plugin:
    """A program that prints an `ExecCredential`: how clouds hand out short-lived tokens."""

    def __init__(self, command: PluginCommand, *, clock: Clock | None = None) -> None:
        self._command = command
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()  # one run serves every call that waits for it
        self._credential: Credential | None = None
        self._expires: datetime | None = None

    async def current(self) -> Credential:
        async with self._lock:
            if self._credential is None or self._expired():
                self._credential, self._expires = self._understand(await self._run())
            return self._credential

    async def renew(self, refused: Credential) -> None:
        if refused == self._credential:
            self._credential = None

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires - EXPIRY_MARGIN

    async def _run(self) -> bytes:
        plugin = self._command
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **dict(plugin.environment),
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f". {plugin.install_hint.strip()}" if plugin.install_hint else ""
            raise self._failure(f"cannot be started: {error.strerror or error}{hint}") from error
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                output, complaint = await asyncio.gather(
                    _drain(process.stdout), _drain(process.stderr)
                )
                code = await process.wait()
        except TimeoutError as error:
            raise self._failure(f"did not end within {PLUGIN_TIMEOUT:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code != 0:
            said = complaint.decode(errors="replace").strip()[-500:]
            raise self._failure(f"ended with code {code}: {said or 'it said nothing'}")
        return output

    def _understand(self, output: bytes) -> tuple[Credential, datetime | None]:
        try:
            answer = msgspec.json.decode(output, type=_PluginAnswer)
        except msgspec.MsgspecError as error:
            raise self._failure(f"printed something else than JSON: {error}") from error
        want = (self._command.api_version, "ExecCredential")
        if (answer.api_version, answer.kind) != want:
            got = f"{answer.api_version or '?'} {answer.kind or '?'}"
            raise self._failure(f"printed a {got}, not a {want[0]} {want[1]}")
        status = answer.status or _PluginStatus()
        pair = status.client_certificate_data, status.client_key_data
        if not status.token and not all(pair):
            raise self._failure("printed neither a token nor a client certificate with its key")
        try:
            until = status.expiration_timestamp
            expires = parse_time(until) if until else None
        except ValueError as error:
            raise self._failure(f"printed a bad expirationTimestamp: {error}") from error
        return (
            Credential(
                (bearer(status.token),) if status.token else (),
                Certificate(pair[0].encode(), pair[1].encode()) if all(pair) else None,
            ),
            expires,
        )

    def _failure(self, what: str) -> Unauthorized:
        return Unauthorized(f"credential plugin {self._command.command!r} {what}")


async def _drain(pipe: asyncio.StreamReader | None) -> bytes:
    """Read to the end, keep the first part: a program that floods us must not fill our memory."""
    assert pipe is not None
    kept = bytearray()
    while chunk := await pipe.read(1 << 16):
        kept += chunk[: PLUGIN_OUTPUT_LIMIT - len(kept)]
    return bytes(kept)
