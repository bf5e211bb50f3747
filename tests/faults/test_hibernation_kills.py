"""`boilerhouse up` killed at any moment while tenants hibernate and come back: no file is lost.

tenants write without a pause ─► seen durable ─► release ─► claim ─► all of them there, bit for bit
                           └─► SIGKILL at some moment ─► nobody is left ─► up again ─► …
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import Random, SystemClock, new_rng
from tests.absence import absent, sandbox_unavailable
from tests.e2e.tenants import eventually
from tests.faults.test_kubelet_kills import processes

pytestmark = pytest.mark.slow

TENANTS = ("anna", "bert", "cleo", "dora")
WORKLOADS = ("pooled", "cold")
MOMENTS = ("claim", "release", "released")
_NUMBERS = itertools.count(1)

# A file has its name once it is on the disk, and its name says what is in it.
WRITER = """
import hashlib, os, time
d = os.open("/workspace", os.O_RDONLY)
while True:
    content = os.urandom(int.from_bytes(os.urandom(2), "big") // 4 + 1)
    with open("/workspace/.new", "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    os.rename("/workspace/.new", "/workspace/" + hashlib.sha256(content).hexdigest())
    os.fsync(d)
    time.sleep(0.1)
"""
SUMS = "cd /workspace && find . -type f ! -name '.*' -exec sha256sum {} +"


def spec(marker: str) -> dict[str, Any]:
    return {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": 0.1, "memoryMb": 64, "diskGb": 1},
        "network": {"access": "none"},
        "filesystem": {"overlayDirs": ["/workspace"]},
        "entrypoint": {"cmd": "/usr/bin/python3", "args": ["-S", "-c", f"# {marker}\n{WRITER}"]},
    }


class Life:
    """One life of the process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._pouring: asyncio.Task[None] | None = None
        self.last: list[bytes] = []

    @classmethod
    async def begin(cls, directory: Path) -> Life:
        return cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "boilerhouse.main", "up", "--data", str(directory)),
                *("--port", "0", "--kube-port", "0"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=1 << 20,
            )
        )

    async def serving(self) -> str:
        """Wait until it serves; return where."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.last = [*self.last[-20:], line]
            if b'"event":"up.serving"' in line:
                self._pouring = asyncio.create_task(self._pour(self.process.stdout))
                return line.partition(b'"api":"')[2].partition(b'"')[0].decode()
        raise AssertionError(f"it ended before it served: {b''.join(self.last).decode()}")

    async def _pour(self, lines: asyncio.StreamReader) -> None:
        # Nobody reading its log would stop it at some point.
        async for line in lines:
            self.last = [*self.last[-20:], line]

    def told(self, number: int) -> str:
        last = b"".join(self.last).decode(errors="replace")
        return f"life {number} was over before its end:\n{last}"

    async def end(self, number: int) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await self.process.wait()
        if self._pouring is not None:
            await self._pouring
        return code


@dataclass
class Ledger:
    """What must be there, and whose it is."""

    durable: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in TENANTS})
    owner: dict[str, str] = field(default_factory=dict)
    releases: int = 0
    revivals: int = 0
    interrupted: list[str] = field(default_factory=list)
    begun: dict[str, asyncio.Event] = field(default_factory=dict)  # in this life

    def __str__(self) -> str:
        files, cut = sum(map(len, self.durable.values())), dict(Counter(self.interrupted))
        return f"{self.releases} releases, {self.revivals} revivals, {files} files, cut off: {cut}"

    def begin(self, what: str) -> None:
        """Note that somebody has come to this point in this life."""
        if what in self.begun:
            self.begun[what].set()

    def seen(self, tenant: str, sums: str) -> None:
        """Check everything that is in an instance, and remember it."""
        found = {}
        for line in sums.splitlines():
            digest, _, name = line.partition("  ./")
            found[name] = digest
        assert all(name == digest for name, digest in found.items()), f"{tenant}: not as written"
        missing = self.durable[tenant] - set(found)
        assert not missing, f"{tenant} lost {len(missing)} of {len(self.durable[tenant])} files"
        for name in found:
            assert self.owner.setdefault(name, tenant) == tenant, f"{tenant} has another's file"
        self.durable[tenant] |= set(found)


class Tenant:
    """One who comes and goes, all the time."""

    def __init__(self, name: str, ledger: Ledger, rng: Random) -> None:
        self.name = name
        self.workload = WORKLOADS[TENANTS.index(name) % 2]
        self.ledger = ledger
        self.rng = rng
        self.doing = ""

    async def live(self, http: httpx2.AsyncClient) -> None:
        """Come and go until the house is dead."""
        try:
            while True:
                await self.cycle(http)
        except httpx2.TransportError:
            self.ledger.interrupted.append(self.doing)

    async def cycle(self, http: httpx2.AsyncClient) -> None:
        claimed = await self.ask(http, "claim")
        self.ledger.revivals += claimed["source"].endswith("+data")
        await self.look(http, claimed["instanceId"])
        await asyncio.sleep(self.rng.random() / 2)
        await self.look(http, claimed["instanceId"])
        released = await self.ask(http, "release")
        assert released["snapshot"]["current"], released
        self.ledger.releases += 1
        self.ledger.begin("released")

    async def look(self, http: httpx2.AsyncClient, instance: str) -> None:
        """See which files are there; an instance that was killed with us may still be starting."""
        self.doing = "exec"
        path, body = f"/api/v1/instances/{instance}/exec", {"command": ["sh", "-c", SUMS]}
        async with asyncio.timeout(60):
            while True:
                answer = await http.post(path, json=body)
                if answer.status_code == 200 and answer.json()["exitCode"] == 0:
                    break
                assert answer.status_code in (200, 409, 503), answer.text
                await asyncio.sleep(0.1)
        assert not answer.json()["truncated"]
        self.ledger.seen(self.name, answer.json()["stdout"])

    async def ask(self, http: httpx2.AsyncClient, what: str) -> Any:
        self.doing = what
        self.ledger.begin(what)
        path, body = f"/api/v1/tenants/{self.name}/{what}", {"workload": self.workload}
        answer = await http.post(path, json=body, params={"wait": 60})
        if what == "release" and answer.status_code == 404:
            pytest.fail(f"{self.name} has no claim to release: {answer.text}")
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


def left_of(pid: int, marker: str) -> list[int]:
    """Return who has outlived a process: with its mark, or in a cgroup that it made."""
    found, group = processes(marker), f"/boilerhouse-{pid}/"
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and group in (entry / "cgroup").read_text():
                found.append(int(entry.name))
    return found


async def some_moment(ledger: Ledger, rng: Random) -> None:
    """Wait until it is time to kill: mostly a little after somebody asked for something."""
    what = rng.choice(["claim", "release", "release", "released", "anything"])
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            if what in MOMENTS:
                await ledger.begun[what].wait()
    await asyncio.sleep(rng.random() * (0.5 if what in MOMENTS else 2))


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=90) as http:
        yield http


async def furnish(http: httpx2.AsyncClient, marker: str) -> None:
    for name in WORKLOADS:
        answer = await http.put(f"/api/v1/workloads/{name}", json={"spec": spec(marker)})
        assert answer.status_code in (200, 201), answer.text
    pool = {"spec": {"workloadRef": "pooled", "size": 2}}
    assert (await http.put("/api/v1/pools/pooled", json=pool)).status_code in (200, 201)


@pytest.mark.parametrize(
    ("seed", "kills"),
    [
        pytest.param(1, 30, marks=pytest.mark.timeout(900)),
        pytest.param(2, 200, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
async def test_killed_while_tenants_hibernate(tmp_path: Path, seed: int, kills: int) -> None:
    """Whatever was durable in an instance is there after every revival, and is nobody else's."""
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")
    marker = f"bh-hibernate-{os.getpid()}-{next(_NUMBERS)}"
    directory = tmp_path / marker
    rng, ledger = new_rng(seed), Ledger()
    tenants = [Tenant(name, ledger, rng) for name in TENANTS]

    async def nobody_left() -> bool:
        return not await asyncio.to_thread(left_of, life.process.pid, marker)

    for number in range(kills):
        life = await Life.begin(directory)
        try:
            if number % 7 == 6:
                await asyncio.sleep(rng.random())  # before it serves, as a rule
            else:
                async with asking(await life.serving()) as http:
                    if number == 0:
                        await furnish(http, marker)
                    ledger.begun = {what: asyncio.Event() for what in MOMENTS}
                    living = [asyncio.create_task(tenant.live(http)) for tenant in tenants]
                    moment = asyncio.create_task(some_moment(ledger, rng))
                    done, _ = await asyncio.wait(
                        {*living, moment}, return_when=asyncio.FIRST_COMPLETED
                    )
                    await life.end(signal.SIGKILL)
                    await asyncio.gather(*living)
                    assert done == {moment}, life.told(number)
        finally:
            await life.end(signal.SIGKILL)
        await eventually(nobody_left)
        print(f"killed {number + 1} times: {ledger}", flush=True)

    life = await Life.begin(directory)
    try:
        async with asking(await life.serving()) as http:
            # Once with what is there, and once more with what that came to.
            for _ in range(2):
                await asyncio.gather(*(tenant.cycle(http) for tenant in tenants))
            snapshots = (await http.get("/api/v1/snapshots")).json()
        assert sorted(one["tenantId"] for one in snapshots) == sorted(TENANTS)
        assert not list((directory / "snapshots" / ".tmp").iterdir())
        assert await life.end(signal.SIGINT) == 0
    finally:
        await life.end(signal.SIGKILL)
    await eventually(nobody_left)
    print(ledger)
    assert ledger.revivals > kills / 3, ledger
    cut = Counter(ledger.interrupted)
    assert min(cut[what] for what in ("claim", "release")) > kills / 6, ledger


def test_the_ledger_notices() -> None:
    """A ledger that let everything pass would make the stories above worthless."""
    ledger = Ledger()
    ledger.seen("anna", "aa  ./aa\nbb  ./bb\n")
    with pytest.raises(AssertionError, match="lost 1 of 2"):
        ledger.seen("anna", "aa  ./aa\n")
    with pytest.raises(AssertionError, match="not as written"):
        ledger.seen("anna", "aa  ./aa\ncc  ./bb\n")
    with pytest.raises(AssertionError, match="another's"):
        ledger.seen("bert", "aa  ./aa\n")
