"""What the embedded API holds before anybody asks: our custom resources and our namespace.

catalogue.crds() ──► transport ──► created, or brought up to date

Through the same door as everyone else, so nothing gets in that the server would refuse.
"""

from __future__ import annotations

from typing import Any

import msgspec

from boilerhouse.kube.status import AlreadyExists, ApiError
from boilerhouse.kube.wire import MERGE_PATCH, Request, Transport

NAMESPACE = "boilerhouse"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def provision(transport: Transport, crds: list[dict[str, Any]]) -> None:
    """Create what is missing; a definition of an earlier release becomes today's."""
    for crd in crds:
        if not await _create(transport, _CRDS, crd):
            # The schema sits in the list of versions, which a merge patch replaces as a whole;
            # a definition that is the same already is not written again.
            await _patch(transport, f"{_CRDS}/{crd['metadata']['name']}", {"spec": crd["spec"]})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await _create(transport, "/api/v1/namespaces", namespace)


async def _create(transport: Transport, path: str, body: dict[str, Any]) -> bool:
    """Create an object; say whether it was not there before."""
    headers = {"content-type": "application/json"}
    reply = await transport.request(
        Request("POST", path, headers=headers, body=msgspec.json.encode(body))
    )
    if reply.status < 300:
        return True
    error = ApiError.parse(reply.status, reply.body)
    if isinstance(error, AlreadyExists):
        return False
    raise error


async def _patch(transport: Transport, path: str, patch: dict[str, Any]) -> None:
    headers = {"content-type": MERGE_PATCH}
    reply = await transport.request(
        Request("PATCH", path, headers=headers, body=msgspec.json.encode(patch))
    )
    if reply.status >= 300:
        raise ApiError.parse(reply.status, reply.body)
