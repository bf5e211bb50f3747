"""A live `boilerhouse up` as a process of its own, in a data directory of its own."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0


class Up:
    """From `start` to `stop` and back; the data directory stays."""

    def __init__(self, directory: Path, descriptors: int | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port = free_port()
        self.kube_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "up.log"
        self._descriptors = descriptors
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until its health is good."""
        command = [
            sys.executable, "-m", "boilerhouse.main", "up", "--data", str(self.data),
            "--port", str(self.port), "--kube-port", str(self.kube_port),
        ]  # fmt: skip
        environment = {**os.environ, "NO_COLOR": "1"}
        environment.pop("BOILERHOUSE_API_KEY", None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                process_group=0,
                preexec_fn=self._limit if self._descriptors else None,
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.runs:
            try:
                if httpx2.get(f"{self.url}/api/v1/health", timeout=5).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"`up` does not serve; the end of its log:\n{self.tail()}")

    def stop(self, number: int = signal.SIGTERM, *, group: bool = False) -> int:
        """Send a signal, to its whole process group if asked, and return the exit code."""
        assert self._process is not None, "it was started"
        if self.runs:
            if group:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _limit(self) -> None:
        assert self._descriptors is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
