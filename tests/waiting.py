"""Waiting for what a server does in its own time: by its watch, never by guessing how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import Object
from boilerhouse.platform.kube.resources import Resource

T = TypeVar("T", bound=Object)


async def until(
    client: Client,
    resource: Resource[T],
    name: str,
    holds: Callable[[T | None], bool],
    timeout: float = 30,
) -> list[T | None]:
    """Watch one object until `holds`; return every state seen, None standing for its absence."""
    seen: list[T | None] = []
    async with asyncio.timeout(timeout):
        while True:
            async with client.watch(
                resource,
                fields=f"metadata.name={name}",
                send_initial_events=True,
                timeout_seconds=int(timeout),
                read_timeout=timeout,
            ) as events:
                async for event in events:
                    if event.initial_events_end and not seen:
                        seen.append(None)
                    elif event.type == "BOOKMARK":
                        continue
                    else:
                        seen.append(None if event.type == "DELETED" else event.object)
                    if holds(seen[-1]):
                        return seen


async def until_found(client: Client, resource: Resource[T], name: str) -> T:
    """Wait until an object is there and return it."""
    last = (await until(client, resource, name, lambda found: found is not None))[-1]
    assert last is not None
    return last
