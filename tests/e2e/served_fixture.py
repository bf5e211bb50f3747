"""Houses as their users run them: processes of the program, spoken to over HTTP.

program(…) ─► a process that serves ─► House: REST, and the program's own commands
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
from cluster import image

from tests.stalls import STALL_SECONDS

Body = dict[str, Any]
KEY = "sesame"


@dataclass
class House:
    """A running house, as its callers see it."""

    http: httpx2.Client
    kind: str
    image: str
    entrypoint: Body
    environ: dict[str, str]

    def spec(self, **changes: Any) -> Body:
        spec: Body = {
            "version": "1",
            "image": {"ref": self.image},
            "resources": {"vcpus": 0.2, "memoryMb": 64, "diskGb": 1},
            "network": {"access": "none", "expose": [{"guest": 8080}]},
            "entrypoint": self.entrypoint,
            "filesystem": {"overlayDirs": ["/workspace"]},
            "apiAccess": {"scopes": ["instances:read"]},
        }
        return spec | changes

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return self.http.request(method, f"/api/v1{path}", json=body, **options)

    def until_ready(self, path: str, **wanted: object) -> Body:
        """Wait for a status by asking again, as a script would."""
        for _ in range(600):
            body: Body = self.ask("GET", path).json()
            if all(body.get("status", {}).get(key) == value for key, value in wanted.items()):
                return body
            subprocess.run(["sleep", "0.1"], check=True)
        pytest.fail(f"{path} never became {wanted}: {body}")

    def run(self, instance: str, *command: str) -> Body:
        answer = self.ask("POST", f"/instances/{instance}/exec", {"command": command})
        assert answer.status_code == 200, answer.text
        body: Body = answer.json()
        return body

    def cli(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "boilerhouse.main", *arguments]
        env = os.environ | self.environ
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=env, check=False, timeout=60
        )


@contextmanager
def program(
    *arguments: str, said: str, env: dict[str, str], end: signal.Signals = signal.SIGINT
) -> Iterator[Body]:
    """Run the program until its log says that it serves; yields that line, and ends it by `end`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "boilerhouse.main", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    )
    assert process.stderr is not None
    heard = []
    try:
        for line in process.stderr:
            heard.append(line)
            if f'"event":"{said}"' in line:
                break
        else:
            pytest.fail(f"it ended with {process.wait()}: {''.join(heard)}")
        # Its log goes on: it would stop at some point if it were not read.
        stalls: list[str] = []
        drain = threading.Thread(target=_read_stalls, args=(process.stderr, stalls), daemon=True)
        drain.start()
        yield json.loads(line)
        process.send_signal(end)
        assert process.wait(30) == (0 if end == signal.SIGINT else -end)
        drain.join(10)
        assert not stalls, f"the event loop of `boilerhouse {arguments[0]}` stalled: {stalls[0]}"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def _read_stalls(log: IO[str], stalls: list[str]) -> None:
    """Read a log to its end; keep what is said of stalls in which the loop itself computed."""
    for line in log:
        if '"event":"loop.stalled"' not in line:
            continue
        if json.loads(line)["processor_milliseconds"] > STALL_SECONDS * 1000:
            stalls.append(line)


@contextmanager
def programs(kubeconfig: Path, namespace: str) -> Iterator[tuple[httpx2.Client, dict[str, str]]]:
    """Run operator and API beside a cluster; yields a way to the API, and what commands need."""
    env = {"KUBECONFIG": str(kubeconfig), "BOILERHOUSE_API_KEY": KEY}
    where = ("--namespace", namespace, "--image", image.NAME)
    with (
        program("operator", *where, "--probes-port", "0", said="operator.running", env=env),
        program("api", *where, "--port", "0", said="api.serving", env=env) as serving,
        httpx2.Client(
            base_url=serving["api"], timeout=90, headers={"authorization": f"Bearer {KEY}"}
        ) as http,
    ):
        yield http, env | {"BOILERHOUSE_URL": serving["api"]}
