"""The custom resources that the embedded API has from the start.

definitions ──► transport ──► created, brought up to date, or left alone

Through the same door as everyone else, so nothing gets in that the server would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from boilerhouse.embedded.apiserver.crd.kind import default_crd
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import CRDS
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.platform.kube.wire import MERGE_PATCH, Transport


async def provision(transport: Transport, crds: Iterable[dict[str, Any]]) -> None:
    """Create what is missing; a definition of an earlier release becomes today's."""
    client = Client(transport)
    for crd in crds:
        path = CRDS.path("", crd["metadata"]["name"])
        try:
            stored = await client.raw("GET", path)
        except NotFound:
            await client.raw("POST", CRDS.path(""), crd)
            continue
        if stored["spec"] != _completed(crd)["spec"]:
            # The schema sits in the list of versions, which a merge patch replaces as a whole.
            await client.raw("PATCH", path, {"spec": crd["spec"]}, content_type=MERGE_PATCH)


def _completed(crd: dict[str, Any]) -> dict[str, Any]:
    """Return a definition as the server would store it.

    To find out that nothing is to be done is cheaper than to have it found out: whoever writes a
    definition pays for the judgement of its schema and of every rule in it, at each start.
    """
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(crd))
    default_crd(body)
    return body
