"""A helper in this process, with a store of its own and agents that pretend."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boilerhouse.core.clock import SystemClock
from boilerhouse.node.agent import protocol
from boilerhouse.node.helper import wire
from boilerhouse.node.helper.helper import Helper
from boilerhouse.node.helper.snapshot_routes import Capacity
from boilerhouse.node.helper.store.store import Store
from boilerhouse.node.helper.wire import Page, Restored, RestoreOrder, Saved, SaveOrder, Version
from boilerhouse.platform.rpc.message import Answer, Body, Handler, Request, answering
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER
from tests.unit.node.helper.helper_fixture import HELPER_TOKEN
from tests.unit.node.helper.pretender import TOKEN, Pretender


@dataclass
class Bench:
    """`agents` listen at 127.0.0.1, at the port that is their number."""

    helper: Helper
    directory: Path
    agents: dict[int, Pretender] = field(default_factory=dict)

    def agent(self, port: int = 1, data: bytes = b"data") -> Pretender:
        return self.agents.setdefault(port, Pretender(data))

    async def ask(
        self,
        method: str,
        path: str,
        *query: tuple[str, str],
        body: Body | None = None,
        agent: int = 1,
    ) -> Answer:
        """Ask; `Refused` unless it is a success."""
        headers = {
            TOKEN_HEADER: HELPER_TOKEN,
            protocol.AGENT: f"127.0.0.1:{agent}",
            protocol.AGENT_TOKEN: TOKEN,
        }
        return await self.helper.handle(Request(method, path, query, headers, body or Body()))

    async def read(self, *args: Any, **kwargs: Any) -> bytes:
        answer = await self.ask(*args, **kwargs)
        try:
            return b"" if answer.status == 202 else await answer.body.read(1 << 28)
        finally:
            await answer.body.close()

    async def save(
        self,
        tenant: str = "anna",
        *,
        pod: str = "pod-1",
        base: str = "",
        agent: int = 1,
        keep: int = 3,
    ) -> Saved:
        order = SaveOrder(tenant, "shop", pod, base, keep, 0)
        while True:
            body = await self.read("POST", wire.SAVE, body=Body(order.encode()), agent=agent)
            if body:
                return Saved.decode(body)

    async def restore(
        self, digest: str, tenant: str = "anna", *, pod: str = "pod-2", agent: int = 1
    ) -> Restored:
        order = RestoreOrder(tenant, "shop", pod, digest, "cold")
        while True:
            body = await self.read("POST", wire.RESTORE, body=Body(order.encode()), agent=agent)
            if body:
                return Restored.decode(body)

    async def current(self, tenant: str = "anna", *, claim: bool = False) -> Version | None:
        query = [("tenant", tenant), ("workload", "shop")]
        if claim:
            query.append(("claim", "true"))
        found = await self.read("GET", wire.CURRENT, *query)
        return Version.decode(found) if found else None

    async def versions(self, tenant: str = "anna") -> list[Version]:
        query = [("tenant", tenant), ("versions", "true")]
        return list(Page.decode(await self.read("GET", wire.SNAPSHOTS, *query)).items)

    async def promote(self, seq: int) -> Version:
        order = json.dumps({"tenant": "anna", "workload": "shop", "seq": seq, "keep": 3}).encode()
        return Version.decode(await self.read("POST", wire.PROMOTE, body=Body(order)))

    def file(self, tenant: str = "anna") -> bytes:
        return (self.directory / tenant / "shop.tar.gz").read_bytes()

    def leftovers(self) -> list[Path]:
        return list((self.directory / ".tmp").iterdir())


@asynccontextmanager
async def working(directory: Path, capacity: Capacity | None = None) -> AsyncIterator[Bench]:
    agents: dict[int, Pretender] = {}

    def reach(host: str, port: int, patience: float) -> Handler:
        return answering(agents[port])

    helper = Helper(HELPER_TOKEN, _store(directory), reach=reach, capacity=capacity)
    try:
        yield Bench(helper, directory, agents)
    finally:
        await helper.stop()


def _store(directory: Path) -> Store:
    directory.mkdir(exist_ok=True)
    return Store.open(directory, SystemClock())
