"""Kubernetes `Status` errors as exceptions: one vocabulary for the client and the embedded server.

The client turns a failed reply into one of these (`ApiError.parse`); the embedded API raises the
same classes and renders them (`to_status`). The class is chosen by `reason`, or by the code if the
reason is unknown; never by the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import msgspec

from boilerhouse.core import errors


class Cause(NamedTuple):
    """One thing that is wrong with one field."""

    reason: str
    message: str
    field: str = ""


def required(field: str, message: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value{': ' + message if message else ''}", field)


def invalid_value(field: str, value: object, message: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {message}", field)


def unsupported_value(field: str, value: object, supported: Iterable[str]) -> Cause:
    names = ", ".join(f'"{name}"' for name in supported)
    return Cause(
        "FieldValueNotSupported",
        f"Unsupported value: {shown(value)}: supported values: {names}",
        field,
    )


def forbidden_field(field: str, message: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {message}", field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", field)


def type_invalid(field: str, value: object, message: str) -> Cause:
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {message}", field)


def shown(value: object) -> str:
    """Render a value for a message: JSON, and never longer than a line."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "…"


class ApiError(Exception):
    """An answer that is not a success."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        name: str = "",
        group: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.name = name
        self.group = group
        self.uid = uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.status_code = self.code if code is None else code
        self.status_reason = self.reason if reason is None else reason

    def to_status(self) -> dict[str, Any]:
        """Render as a `Status` object."""
        known = {"name": self.name, "group": self.group, "kind": self.kind, "uid": self.uid}
        details: dict[str, Any] = {key: value for key, value in known.items() if value}
        if self.causes:
            details["causes"] = [
                {
                    "reason": c.reason,
                    "message": c.message,
                    **({"field": c.field} if c.field else {}),
                }
                for c in self.causes
            ]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.status_reason,
            **({"details": details} if details else {}),
            "code": self.status_code,
        }

    @staticmethod
    def parse(code: int, body: bytes, retry_after: str = "") -> ApiError:
        """Turn a failed reply into the exception of its reason; any body will do."""
        try:
            status = msgspec.json.decode(body, type=_Status)
        except msgspec.MsgspecError:
            status = _Status()
        by_code = _REASON_OF_CODE.get(status.code or code, "")
        reason = status.reason or by_code
        cls = _CLASS_OF_REASON.get(reason) or _CLASS_OF_REASON.get(by_code, ApiError)
        details = status.details or _Details()
        seconds = details.retryAfterSeconds or (int(retry_after) if retry_after.isdecimal() else 0)
        return cls(
            status.message or body[:500].decode(errors="replace") or f"HTTP {code}",
            kind=details.kind,
            name=details.name,
            group=details.group,
            uid=details.uid,
            causes=[Cause(c.reason, c.message, c.field) for c in details.causes or ()],
            retry_after=seconds,
            code=status.code or code,
            reason=reason or "Unknown",
        )


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError, errors.Conflict):
    code, reason = 409, "Conflict"


class Gone(ApiError):
    """The resourceVersion or continue token is too old: list again."""

    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object breaks its schema or its rules; `causes` has every reason."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError, errors.Overloaded):
    code, reason = 429, "TooManyRequests"

    @property
    def after(self) -> timedelta | None:
        return timedelta(seconds=self.retry_after) if self.retry_after else None


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    """Nobody answered, or the server says it cannot now. Worth trying again."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists,
    Conflict, Gone, TooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError,
    Unavailable, Timeout,
)  # fmt: skip
_CLASS_OF_REASON = {cls.reason: cls for cls in _CLASSES} | {"Gone": Gone, "ServerTimeout": Timeout}
_REASON_OF_CODE = {cls.code: cls.reason for cls in _CLASSES} | {502: "ServiceUnavailable"}


class _StatusCause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[_StatusCause] | None = None
    retryAfterSeconds: int = 0  # noqa: N815 - the wire's name


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None
    code: int = 0
