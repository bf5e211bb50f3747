"""Memory of `up` over many claims: bounded by numbers, not by how many there have been.

BOILERHOUSE_SOAK_CYCLES=3000 pytest -m soak tests/faults/test_up_memory.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from tests.absence import absent, sandbox_unavailable
from tests.e2e.served_fixture import program

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * 3600)]

CYCLES = int(os.environ.get("BOILERHOUSE_SOAK_CYCLES", "20000"))
TENANTS = 30
WORKERS = 3
GROWTH = 1.3  # of what a tenth of the cycles has left
SPEC = {
    "version": "1",
    "image": {"ref": "host"},
    "resources": {"vcpus": 0.1, "memoryMb": 64, "diskGb": 1},
    "network": {"access": "none"},
    "entrypoint": {"cmd": "/bin/sleep", "args": ["infinity"]},
    "filesystem": {"overlayDirs": ["/workspace"]},
}


@pytest.fixture
async def sandboxes(tmp_path: Path) -> None:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")


class Churn:
    """Tenants of a fixed set that come, write a line, and go."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._free = list(range(TENANTS))
        self.written = dict.fromkeys(range(TENANTS), 0)
        self.done = 0

    async def until(self, cycles: int) -> None:
        """Go on until there were so many in all."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(cycles))

    async def _work(self, cycles: int) -> None:
        while self.done + WORKERS - 1 < cycles:
            tenant = self._free.pop(0)
            await self._cycle(tenant)
            self._free.append(tenant)
            self.done += 1

    async def _cycle(self, tenant: int) -> None:
        body = {"workload": "box"}
        made = await self._post(f"/tenants/t{tenant}/claim", body)
        # Each finds what the last one has left: nothing is lost on the way.
        script = "cat /workspace/n 2>/dev/null; echo $0 > /workspace/n"
        command = ["sh", "-c", script, str(self.written[tenant] + 1)]
        done = await self._post(f"/instances/{made['instanceId']}/exec", {"command": command})
        expected = f"{self.written[tenant]}\n" if self.written[tenant] else ""
        assert done["stdout"] == expected, done
        self.written[tenant] += 1
        gone = await self._post(f"/tenants/t{tenant}/release", body)
        assert gone["phase"] == "Released", gone

    async def _post(self, path: str, body: Any) -> Any:
        answer = await self._http.post(path, json=body, params={"wait": 60})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) / 1024


@pytest.mark.usefixtures("sandboxes")
def test_memory_is_bounded_by_a_number(tmp_path: Path) -> None:
    """Ten times as many claims leave about as much memory; each tenant has its last line."""
    where = ("--data", str(tmp_path / "data"), "--port", "0", "--kube-port", "0")
    with program("up", *where, said="up.serving", env={}) as serving:
        pid = int((tmp_path / "data" / "lock").read_text())
        early, late = asyncio.run(_churn(serving["api"], pid))
        database = (tmp_path / "data" / "kube.db").stat().st_size >> 20
        print(f"RSS after {CYCLES // 10}: {early:.0f} MiB, after {CYCLES}: {late:.0f} MiB")
        print(f"database: {database} MiB")
        assert late <= GROWTH * early


async def _churn(api: str, pid: int) -> tuple[float, float]:
    clock = SystemClock()
    async with httpx2.AsyncClient(base_url=f"{api}/api/v1", timeout=120) as http:
        made = await http.put("/workloads/box", json={"spec": SPEC})
        assert made.status_code == 201, made.text
        pool = await http.put("/pools/box", json={"spec": {"workloadRef": "box", "size": 3}})
        assert pool.status_code == 201, pool.text
        churn = Churn(http)
        early, began = 0.0, clock.monotonic()
        for step in range(1, 21):
            await churn.until(step * CYCLES // 20)
            now = memory(pid)
            if step == 2:
                early = now
            rate = churn.done / (clock.monotonic() - began)
            print(f"{churn.done:6} cycles, {now:5.0f} MiB, {rate:4.1f}/s", file=sys.stderr)
        return early, memory(pid)
