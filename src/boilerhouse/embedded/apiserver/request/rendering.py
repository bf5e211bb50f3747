"""From stored objects to replies: plain JSON as stored, YAML, Table, metadata only.

Stored ──► Reply          the bytes on disk are the bytes on the wire whenever nothing else is asked
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import yaml

from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.table import table
from boilerhouse.embedded.apiserver.storage.store import Stored
from boilerhouse.platform.kube.status import ApiError, NotAcceptable
from boilerhouse.platform.kube.wire import JSON, YAML, Reply

encode = msgspec.json.Encoder().encode


def object_reply(
    kind: Kind,
    stored: Stored,
    rendering: Rendering,
    now: Callable[[], datetime],
    *,
    status: int = 200,
    warnings: Sequence[str] = (),
    include: str = "",
) -> Reply:
    """Answer with one object. `now` is asked only if its age is to be shown."""
    if rendering.plain:
        return Reply(status, stored.raw, _headers(JSON, warnings))
    value = shaped(kind, stored.body, rendering, now(), include)
    return Reply(status, written(value), _headers(rendering.content_type, warnings))


def value_reply(value: Mapping[str, Any], rendering: Rendering, status: int = 200) -> Reply:
    """Answer with something that is not stored: a Status, a Scale."""
    return Reply(status, written(value), {"content-type": rendering.media})


def error_reply(error: ApiError) -> Reply:
    """Answer with the Status of an error. Errors are always JSON, as they must be readable."""
    headers = {"content-type": JSON}
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    return Reply(error.status_code, encode(error.to_status()), headers)


def shaped(kind: Kind, body: Body, rendering: Rendering, now: datetime, include: str = "") -> Body:
    """Return the object in the shape asked for."""
    if rendering.shape == "Table":
        return as_table(kind, [body], rendering, now, include, revision(body))
    if rendering.shape:
        return metadata_only(body, rendering.version)
    return body


def as_table(
    kind: Kind,
    bodies: Sequence[Body],
    rendering: Rendering,
    now: datetime,
    include: str,
    resource_version: str,
) -> Body:
    made = table(kind, bodies, include=include or "Metadata", now=now)
    made["apiVersion"] = f"meta.k8s.io/{rendering.version}"
    made["metadata"] = {"resourceVersion": resource_version}
    return made


def metadata_only(body: Body, version: str) -> Body:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": body["metadata"],
    }


def revision(body: Body) -> str:
    return str(body["metadata"].get("resourceVersion", ""))


def written(value: Mapping[str, Any]) -> bytes:
    """Write an answer as JSON; where YAML was asked for, `as_yaml` makes it of that."""
    return encode(value)


def is_yaml(reply: Reply) -> bool:
    """Tell whether an answer is to be YAML."""
    return reply.headers.get("content-type", "").startswith(YAML)


def as_yaml(reply: Reply) -> Reply:
    """Turn the JSON of an answer into YAML: a thousand times slower, so it blocks for long."""
    if len(reply.body) > YAML_LIMIT:
        message = f"the answer is larger than {YAML_LIMIT >> 20} MiB: ask for JSON, or set a limit"
        return error_reply(NotAcceptable(message))
    value = msgspec.json.decode(reply.body)
    body = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return Reply(reply.status, body.encode(), reply.headers)


_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C where it can be had
YAML_LIMIT = 8 << 20  # bytes of JSON


def _headers(content_type: str, warnings: Sequence[str]) -> dict[str, str]:
    headers = {"content-type": content_type}
    if warnings:
        # One header may carry several warnings; clients split at the commas.
        headers["warning"] = ", ".join(
            '299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in warnings
        )
    return headers
