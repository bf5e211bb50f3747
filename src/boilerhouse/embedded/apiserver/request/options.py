"""The query parameters of a write: fieldValidation, dryRun; and what becomes of unknown fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from boilerhouse.embedded.apiserver.kind import Kind
from boilerhouse.embedded.apiserver.request.refusals import invalid, invalid_options, undecodable
from boilerhouse.platform.kube.status import Cause, shown, unsupported_value
from boilerhouse.platform.kube.wire import Request

_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


class WriteOptions(msgspec.Struct, frozen=True):
    validation: Literal["Ignore", "Strict", "Warn"]
    dry_run: bool
    deferred: bool = False

    @property
    def duplicates(self) -> Literal["ignore", "likely", "all"]:
        """How hard to look for fields that are there twice."""
        if self.validation == "Strict":
            return "all"
        return "likely" if self.validation == "Warn" else "ignore"

    def complain(
        self, kind: Kind, unknown: Sequence[str], duplicates: Sequence[str] = ()
    ) -> list[str]:
        """Return warnings about fields nobody knows, or refuse the object for them."""
        if not (unknown or duplicates) or self.validation == "Ignore":
            return []
        words = [f'unknown field "{path}"' for path in unknown]
        words += [f'duplicate field "{path}"' for path in duplicates]
        if self.validation == "Strict":
            raise undecodable(kind, f"strict decoding error: {', '.join(words)}")
        return words

    def complain_of_patch(self, kind: Kind, name: str, unknown: Sequence[str]) -> list[str]:
        """Do the same for fields that a patch brings in, which a real server calls Invalid."""
        if not unknown:
            return []
        if self.validation != "Strict":
            return self.complain(kind, unknown)
        words = ", ".join(f'unknown field "{path}"' for path in unknown)
        cause = Cause("FieldValueInvalid", f"strict decoding error: {words}", "patch")
        raise invalid(kind, name, [cause])


def write_options(request: Request, name: str) -> WriteOptions:
    """Read the parameters; `name` is the type they make up, for the refusal: `CreateOptions`."""
    if not request.query:
        return _DEFERRED if request.deferred else _DEFAULT
    causes: list[Cause] = []
    validation = request.param("fieldValidation")
    if validation not in _VALIDATIONS:
        causes.append(unsupported_value("fieldValidation", validation, _VALIDATIONS))
    dry = dry_run_causes(request.params("dryRun"))
    if causes or dry:
        raise invalid_options(name, causes + dry)
    chosen: Literal["Ignore", "Strict", "Warn"] = "Warn"
    if validation == "Ignore":
        chosen = "Ignore"
    elif validation == "Strict":
        chosen = "Strict"
    return WriteOptions(chosen, "All" in request.params("dryRun"), request.deferred)


def dry_run_causes(values: Sequence[str]) -> list[Cause]:
    if all(value == "All" for value in values):
        return []
    message = f'Unsupported value: {shown(list(values))}: supported values: "All"'
    return [Cause("FieldValueNotSupported", message, "dryRun")]


_DEFAULT = WriteOptions("Warn", dry_run=False)
_DEFERRED = WriteOptions("Warn", dry_run=False, deferred=True)
