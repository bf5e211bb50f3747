"""The custom resources that the embedded API has from the start.

definitions ──► transport ──► created, brought up to date, or left alone

Through the same door as everyone else, so nothing gets in that the server would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.crd.kind import default_crd
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.wire import MERGE_PATCH, Request, Transport

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def provision(transport: Transport, crds: Iterable[dict[str, Any]]) -> None:
    """Create what is missing; a definition of an earlier release becomes today's."""
    for crd in crds:
        path = f"{_CRDS}/{crd['metadata']['name']}"
        stored = await _get(transport, path)
        if stored is None:
            await _create(transport, _CRDS, crd)
        elif stored["spec"] != _completed(crd)["spec"]:
            # The schema sits in the list of versions, which a merge patch replaces as a whole.
            await _patch(transport, path, {"spec": crd["spec"]})


def _completed(crd: dict[str, Any]) -> dict[str, Any]:
    """Return a definition as the server would store it.

    To find out that nothing is to be done is cheaper than to have it found out: whoever writes a
    definition pays for the judgement of its schema and of every rule in it, at each start.
    """
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(crd))
    default_crd(body)
    return body


async def _get(transport: Transport, path: str) -> dict[str, Any] | None:
    reply = await transport.request(Request("GET", path))
    if reply.status == 404:
        return None
    if reply.status >= 300:
        raise ApiError.parse(reply.status, reply.body)
    found: dict[str, Any] = msgspec.json.decode(reply.body)
    return found


async def _create(transport: Transport, path: str, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    reply = await transport.request(
        Request("POST", path, headers=headers, body=msgspec.json.encode(body))
    )
    if reply.status >= 300:
        raise ApiError.parse(reply.status, reply.body)


async def _patch(transport: Transport, path: str, patch: dict[str, Any]) -> None:
    headers = {"content-type": MERGE_PATCH}
    reply = await transport.request(
        Request("PATCH", path, headers=headers, body=msgspec.json.encode(patch))
    )
    if reply.status >= 300:
        raise ApiError.parse(reply.status, reply.body)
