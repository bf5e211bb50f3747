"""Errors as answers: every failure becomes one body with one shape.

Problem | ApiError | Litestar's own ─► Problem ─► {"error", "code", "details", + RFC 9457 members}

`error` is a sentence for people, `code` a word for programs, `details` whatever else there is to
say, such as every single thing that is wrong with a spec. A failure is never 200, and bad input is
never 500: what reaches the last handler is a bug of ours, and is logged as one.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from boilerhouse.core.clock import new_uid
from boilerhouse.core.errors import Retry
from boilerhouse.core.mistakes import in_words
from boilerhouse.platform.kube.exec import CommandTimeout
from boilerhouse.platform.kube.status import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    TooManyRequests,
)
from boilerhouse.platform.rpc.refusal import Refused
from boilerhouse.tenancy.snapshots.asking import HelperUnavailable

log = structlog.get_logger(__name__)

PROBLEM_JSON = "application/problem+json"
RETRY_AFTER = 1  # seconds, where nobody said better
_NO_BODY = ("data", "'data'")  # what Litestar says of a body that is not there
_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')


class Problem(Exception):
    """A request that cannot be met: which status, which word, which sentence."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        if status in (429, 503):
            self.headers.setdefault("retry-after", str(RETRY_AFTER))

    def body(self) -> bytes:
        """Render the whole answer's body."""
        return msgspec.json.encode(
            {
                "error": self.message,
                "code": self.code,
                "type": "about:blank",
                "title": title(self.status),
                "status": self.status,
                "detail": self.message,
                **({} if self.details is None else {"details": self.details}),
            },
            enc_hook=str,
        )


def title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def bad_request(message: str, details: object = None) -> Problem:
    return Problem(400, "BadRequest", message, details=details)


def not_found(kind: str, name: str) -> Problem:
    return Problem(404, f"{kind}NotFound", f"there is no {kind.lower()} named {name!r}")


def conflict(code: str, message: str, details: object = None) -> Problem:
    return Problem(409, code, message, details=details)


def invalid(what: str, problems: Sequence[str]) -> Problem:
    """Say everything that is wrong with a spec at once."""
    message = f"{what} is invalid: {'; '.join(problems)}"
    return Problem(422, "Invalid", message, details={"errors": list(problems)})


def too_many(message: str, seconds: int = RETRY_AFTER) -> Problem:
    return Problem(429, "TooManyRequests", message, headers={"retry-after": str(seconds)})


def of_cluster(error: ApiError) -> Problem:
    """Translate what the Kubernetes API answered into what our caller should hear.

    The caller is to blame for what it sent, never for what the cluster lacks or forbids us.
    """
    retry = {"retry-after": str(error.retry_after)} if error.retry_after else None
    match error:
        case CommandTimeout():
            output = {
                "stdout": _text(error.stdout),
                "stderr": _text(error.stderr),
                "truncated": error.truncated,
            }
            return Problem(504, "CommandTimeout", error.message, details=output)
        case Invalid():
            causes = [f"{c.field}: {c.message}" if c.field else c.message for c in error.causes]
            details = {"errors": causes or [error.message]}
            return Problem(422, "Invalid", error.message, details=details)
        case BadRequest() if unknown := _UNKNOWN_FIELD.findall(error.message):
            return invalid("the object", [f"{field}: unknown field" for field in unknown])
        case BadRequest() | NotFound() | TooLarge():
            return Problem(error.status_code, error.status_reason, error.message)
        case AlreadyExists() | Conflict():
            return Problem(409, error.status_reason, error.message)
        case Forbidden() if "exceeded quota" in error.message:
            return Problem(429, "QuotaExceeded", error.message, headers={"retry-after": "5"})
        case TooManyRequests():
            return Problem(429, "TooManyRequests", error.message, headers=retry)
        case _ if error.status_code in (500, 501):
            return Problem(502, "ClusterFailed", f"the Kubernetes API failed: {error.message}")
        case _:
            message = f"the cluster cannot be reached or refuses us: {error.message}"
            return Problem(503, "ClusterUnavailable", message, headers=retry)


def of_framework(error: HTTPException) -> Problem:
    """Translate what Litestar found: no such route, a wrong method, a body that does not fit."""
    status = error.status_code
    if isinstance(error, ValidationException):
        problems = [_validation(entry) for entry in _entries(error.extra)]
        message = "; ".join(problems) or error.detail
        return bad_request(message, {"errors": problems} if problems else None)
    code = title(status).replace(" ", "").replace("-", "")
    message = error.detail
    # Litestar puts the deserialiser's own words into the cause of a body that is not JSON.
    if status == 400 and error.__cause__ is not None and str(error.__cause__) != message:
        message = f"{message}: {error.__cause__}"
    return Problem(status, code, message, headers=error.headers)


def _entries(extra: object) -> list[Any]:
    return list(extra) if isinstance(extra, list) else []


def _validation(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    message, key = entry.get("message", ""), entry.get("key", "")
    if (key, message) == _NO_BODY:
        return "the request has no body: send a JSON object"
    sentence = in_words(str(message))
    return f"{key}: {sentence}" if key and not sentence.startswith(f"{key}") else sentence


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def problem_of(error: Exception) -> Problem:
    """Make a Problem of anything that a handler raised."""
    match error:
        case Problem():
            return error
        case ApiError():
            return of_cluster(error)
        case HTTPException():
            return of_framework(error)
        case Refused() if error.status in (400, 404, 409, 413, 422, 507):
            return Problem(error.status, _word(error.code), str(error))
        case HelperUnavailable():
            message = f"the snapshot helper cannot be asked: {error}"
            return Problem(503, "HelperUnavailable", message)
        case Refused() | Retry():
            return Problem(503, "InstanceUnavailable", f"the instance cannot be asked: {error}")
        case RecursionError() if "deserializing" in str(error):
            return bad_request("the body is nested too deeply")
        case UnicodeDecodeError() if _of_body(error):
            return bad_request(f"the body is not UTF-8: {error.reason}")
        case _:
            # The sentence says nothing of the inside; the number finds the line in the log.
            number = new_uid()[:8]
            log.error("api.failed", number=number, exc_info=error)
            return Problem(500, "InternalError", f"an error on our side, logged as {number}")


def _of_body(error: Exception) -> bool:
    """Whether it was raised where Litestar decodes a body: msgspec does not call it its own."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module: str = frame.f_globals["__name__"]
    return module.startswith("litestar.serialization")


def _word(code: str) -> str:
    """Write an agent's code as we write ours: no-such-path, NoSuchPath."""
    return "".join(part.capitalize() for part in code.split("-"))


def answer(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer a failed request; Litestar's exception handler for everything."""
    problem = problem_of(error)
    return Response(
        content=problem.body(),
        status_code=problem.status,
        media_type=PROBLEM_JSON,
        headers=problem.headers,
    )
