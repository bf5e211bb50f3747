"""`up` with few file descriptors and many connections: it waits, refuses, and goes on."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from boilerhouse.core.clock import SystemClock
from tests.absence import absent, sandbox_unavailable
from tests.e2e.snapshots_fixture import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROUNDS = 14  # with one more descriptor free each time

SPEC = {
    "version": "1",
    "image": {"ref": "host"},
    "resources": {"vcpus": 0.1, "memoryMb": 64, "diskGb": 1},
    "network": {"access": "none"},
    "entrypoint": {"cmd": "/bin/sh", "args": ["-c", "while :; do sleep 1; done"]},
    "filesystem": {"overlayDirs": ["/workspace"]},
}


@pytest.fixture
async def sandboxes(tmp_path: Path) -> None:
    problems = await sandbox_unavailable(tmp_path / "check", SystemClock())
    if problems:
        absent(f"containers cannot run here: {problems[0]}")


@dataclass
class Up:
    process: subprocess.Popen[bytes]
    api: str
    limits: dict[str, Any]

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """Ask over a connection of its own, as a script would."""
        with httpx2.Client(base_url=self.api, timeout=60) as http:
            return http.request(method, f"/api/v1{path}", json=body, **more)

    def workload(self) -> None:
        assert self.ask("PUT", "/workloads/box", {"spec": SPEC}).status_code == 201
        soon("it is ready", lambda: self._phase() == "Ready")

    def _phase(self) -> Any:
        return self.ask("GET", "/workloads/box").json().get("status", {}).get("phase")

    def cycle(self, tenant: str) -> None:
        """Claim, run a command, release: all of it has to work."""
        body = {"workload": "box"}
        made = self.ask("POST", f"/tenants/{tenant}/claim", body, params={"wait": 60})
        assert made.status_code in (200, 201), made.text
        command = {"command": ["echo", tenant]}
        done = self.ask("POST", f"/instances/{made.json()['instanceId']}/exec", command)
        assert (done.status_code, done.json().get("stdout")) == (200, f"{tenant}\n"), done.text
        gone = self.ask("POST", f"/tenants/{tenant}/release", body, params={"wait": 60})
        assert gone.status_code == 200, gone.text

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208

    def metric(self, name: str) -> float:
        with httpx2.Client(base_url=self.api, timeout=60) as http:
            lines = http.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextmanager
def up(data: Path, descriptors: int) -> Iterator[Up]:
    command = [sys.executable, "-m", "boilerhouse.main", "up", "--data", str(data)]
    errors = data.parent / "stderr"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", "0", "--kube-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=file,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (descriptors, descriptors)
            ),
        )
    try:

        def said(event: str) -> Any:
            assert process.poll() is None, errors.read_text()
            lines = errors.read_text().splitlines()
            return next((json.loads(one) for one in lines if f'"event":"{event}"' in one), None)

        limits = soon("it serves", lambda: said("up.limits"))
        yield Up(process, said("up.serving")["api"], limits)
        assert process.poll() is None, errors.read_text()[-4000:]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, errors.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()


def address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("//")[2].rpartition(":")
    return host, int(port)


@pytest.mark.usefixtures("sandboxes")
def test_idle_connections_leave_room_for_everybody_else(tmp_path: Path) -> None:
    """1500 connections that say nothing, 1024 descriptors: claims, commands, releases go on."""
    with up(tmp_path / "data", 1024) as house, ExitStack() as flood:
        house.workload()
        for _ in range(1500):
            with contextlib.suppress(ConnectionError):
                flood.enter_context(socket.create_connection(address(house.api), timeout=10))
        for number in range(3):
            house.cycle(f"tenant-{number}")
        assert house.descriptors() < 1024 * 3 // 4
        assert house.ask("GET", "/health").status_code == 200
        most = house.limits["connections"]["api"]
        assert house.metric('boilerhouse_connections_open{listener="api"}') <= most
        label = 'boilerhouse_connections_closed_for_room_total{listener="api"}'
        assert house.metric(label) >= 1500 - most


@pytest.mark.usefixtures("sandboxes")
def test_who_only_connects_again_and_again_ends_nothing(tmp_path: Path) -> None:
    """Two that open connections as fast as they can, and never close one themselves."""
    with up(tmp_path / "data", 1024) as house:
        house.workload()
        over = threading.Event()

        def connect() -> None:
            held: list[socket.socket] = []
            while not over.is_set():
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection(address(house.api), timeout=1))
                if len(held) > 1000:
                    held.pop(0).close()
                time.sleep(0.002)
            for one in held:
                one.close()

        greedy = [threading.Thread(target=connect) for _ in range(2)]
        for one in greedy:
            one.start()
        try:
            for number in range(3):
                house.cycle(f"tenant-{number}")
        finally:
            over.set()
            for one in greedy:
                one.join()
        assert house.descriptors() < 1024 * 3 // 4


@pytest.mark.usefixtures("sandboxes")
def test_without_a_single_free_descriptor_it_lives_on(tmp_path: Path) -> None:
    """What needs one fails; once there are some again everything works."""
    with up(tmp_path / "data", 1024) as house:
        house.workload()
        house.cycle("first")
        soon("its instance is gone", lambda: house.ask("GET", "/instances").json() == [])
        before = house.descriptors()
        pid = house.process.pid
        kept = httpx2.Client(base_url=house.api, timeout=5)
        assert kept.get("/api/v1/health").status_code == 200
        for spare in range(ROUNDS):
            wanted = house.descriptors() + spare
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (wanted, 1024))
            with contextlib.suppress(httpx2.HTTPError):
                kept.post("/api/v1/tenants/second/claim?wait=1", json={"workload": "box"})
            with contextlib.suppress(httpx2.HTTPError):
                kept.post("/api/v1/tenants/second/release?wait=1", json={"workload": "box"})
            assert house.process.poll() is None
        kept.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 1024))
        gone = house.ask(
            "POST", "/tenants/second/release", {"workload": "box"}, params={"wait": 60}
        )
        assert gone.status_code in (200, 404), gone.text
        house.cycle("third")
        soon("its instances are gone", lambda: house.ask("GET", "/instances").json() == [])
        # uvloop loses the sockets of a subprocess that it had too few descriptors for: two pairs.
        soon("no more are lost", lambda: house.descriptors() <= before + 4 * ROUNDS, 30)


def test_too_few_descriptors_are_refused_in_one_sentence(tmp_path: Path) -> None:
    """Below what it needs to work at all it does not start, and says what to raise."""
    command = [sys.executable, "-m", "boilerhouse.main", "up", "--data", str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)),
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "200 files (RLIMIT_NOFILE)" in done.stderr and "256" in done.stderr
    assert not (tmp_path / "data").exists()
