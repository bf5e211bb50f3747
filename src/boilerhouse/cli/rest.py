"""The way from a command to a running Boilerhouse: its REST API.

BOILERHOUSE_URL, BOILERHOUSE_API_KEY ─► Rest ─► answer | Failure

A failure is one line that says what went wrong and, where we know it, what to do next. The key goes
into one header and nowhere else: no message, no log, no argument that others could read.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
import typer

from boilerhouse.core.environment import KEY_VARIABLE, URL_VARIABLE

DEFAULT_URL = "http://127.0.0.1:3000"
PATIENCE = 30.0

FAILED = 1
PENDING = 3  # asked for, not done yet


class Failure(Exception):
    """What a command could not do, as a line for people, and its exit code."""

    def __init__(self, message: str, exit_code: int = FAILED, *, status: int = 0) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.status = status


class Broke(Failure):
    """The connection ended in the middle of an answer."""


class Rest:
    """One Boilerhouse. Blocks; a command has nothing else to do."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self.url = environ.get(URL_VARIABLE, "").rstrip("/") or DEFAULT_URL
        if not self.url.startswith(("http://", "https://")):
            raise Failure(f"{URL_VARIABLE}={self.url}: want http://… or https://…", 2)
        self.key = environ.get(KEY_VARIABLE, "")
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._http = httpx2.Client(headers=headers, timeout=PATIENCE)

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
    ) -> tuple[int, Any]:
        """Make a call; return its status and what the answer's JSON holds."""
        headers = {} if body is None else {"content-type": "application/json"}
        content = None if body is None else msgspec.json.encode(body)
        return self._request(method, path, content, headers, query, httpx2.Timeout(timeout))

    def send(
        self,
        method: str,
        path: str,
        pieces: Iterable[bytes],
        *,
        length: int | None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a body in pieces, however long it takes; `length` None is not known before."""
        headers = {"content-type": "application/octet-stream"}
        if length is not None:
            headers["content-length"] = str(length)
        timeout = httpx2.Timeout(PATIENCE, read=None)
        return self._request(method, path, pieces, headers, query, timeout)

    def _request(
        self,
        method: str,
        path: str,
        content: bytes | Iterable[bytes] | None,
        headers: dict[str, str],
        query: Mapping[str, str] | None,
        timeout: httpx2.Timeout,
    ) -> tuple[int, Any]:
        with self._reaching():
            answer = self._http.request(
                method,
                f"{self.url}/api/v1/{path}",
                content=content,
                headers=headers,
                params=dict(query or {}),
                timeout=timeout,
            )
        if answer.status_code >= 400:
            raise self._failure(answer.status_code, answer.content)
        return answer.status_code, self._decoded(answer.content)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "*/*",
    ) -> Iterator[httpx2.Response]:
        """Open an answer that comes in pieces, for as long as it takes."""
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = "application/json"
        with (
            self._reaching(),
            self._http.stream(
                method,
                f"{self.url}/api/v1/{path}",
                content=None if body is None else msgspec.json.encode(body),
                headers=headers,
                params=dict(query or {}),
                timeout=httpx2.Timeout(PATIENCE, read=None),
            ) as answer,
        ):
            if answer.status_code >= 400:
                raise self._failure(answer.status_code, answer.read())
            yield answer

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx2.ConnectError as error:
            raise Failure(self._not_reached(error)) from error
        except httpx2.TimeoutException as error:
            raise Failure(f"{self.url} did not answer in time") from error
        except httpx2.RemoteProtocolError as error:
            raise Broke(f"{self.url} ended the connection before its answer was whole") from error
        except httpx2.HTTPError as error:
            raise Broke(f"the connection to {self.url} broke: {error}") from error

    def _not_reached(self, error: BaseException) -> str:
        """Say what kept us from connecting: the name, the certificate, or that nobody listens."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, socket.gaierror):
                host = urlsplit(self.url).hostname
                return f"{host} is not known ({cause.strerror}): is {URL_VARIABLE} right?"
            if isinstance(cause, ssl.SSLCertVerificationError):
                return (
                    f"the certificate of {self.url} is not trusted ({cause.verify_message}): name"
                    " its authority in SSL_CERT_FILE"
                )
            if isinstance(cause, ssl.SSLError):
                why = cause.reason or cause
                return f"{self.url} does not speak TLS as we do ({why}): is it http://?"
            cause = cause.__cause__ or cause.__context__
        return (
            f"nobody answers at {self.url}: start it with `boilerhouse up`, or set {URL_VARIABLE}"
        )

    def _failure(self, status: int, content: bytes) -> Failure:
        try:
            body = msgspec.json.decode(content)
            message = str(body["error"])
            errors = (body.get("details") or {}).get("errors", [])
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            return Failure(f"{self.url} answered {status}: is it a Boilerhouse?", status=status)
        if status == 422 and len(errors) > 1:
            message = message.partition(":")[0] + ":" + "".join(f"\n  {line}" for line in errors)
        if status == 401 and not self.key:
            message = f"a key is needed: set {KEY_VARIABLE}"
        return Failure(message, status=status)

    def _decoded(self, content: bytes) -> Any:
        try:
            return msgspec.json.decode(content) if content else None
        except msgspec.MsgspecError:
            raise Failure(f"{self.url} did not answer with JSON: is it a Boilerhouse?") from None


def print_json(body: object) -> None:
    """Print an answer as it is, for programs."""
    typer.echo(msgspec.json.format(msgspec.json.encode(body), indent=2))


def segment(text: str) -> str:
    """Write a name as one part of a path; what else cannot be one is for the server to refuse."""
    if text in ("", ".", ".."):
        raise Failure(f"{text!r} cannot be a name", 2)
    if "/" in text or "\\" in text:
        raise Failure(f"{text!r} cannot be a name: it has a slash or a backslash", 2)
    return quote(text, safe="")
