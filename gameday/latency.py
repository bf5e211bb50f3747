"""How long the calls of an innocent tenant take: at rest, and while something is attacked.

python -m gameday.latency URL TENANT WORKLOAD ─► a call every 20 ms ─► their times, when stdin ends

The calls come from a process of their own: in that of the attack they would wait for the
attacker's threads, and measure those. They claim the living instance again (`existing`), at a
steady pace. What counts is the ratio of the two 99th percentiles of one run, unless the second is
below FLOOR_SECONDS.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import httpx2

from gameday.scenario import Broke

PACE_SECONDS = 0.02
TIMES = 3  # as long others may wait during an attack
# At rest the p99 is 2 to 3 ms, a few calls of some 200; attacker, callers and `up` share the
# processors, and a scheduler's slices are as long. Below this a ratio is noise.
FLOOR_SECONDS = 0.01
ATTACK_SECONDS = 5.0  # at least, so that there is something to measure
LEAST = 50  # calls of others during an attack


def again_and_again() -> Iterator[None]:
    """Repeat an attack until it has lasted long enough to be measured."""
    end = time.monotonic() + ATTACK_SECONDS
    yield
    while time.monotonic() < end:
        yield


def rest() -> None:
    """Attack nothing, for as long."""
    time.sleep(ATTACK_SECONDS)


class Latencies:
    """`at_rest`, then `meanwhile`, then `judge`. `usually`: what the former is, in words."""

    def __init__(self, url: str, tenant: str, workload: str, usually: str) -> None:
        self._command = [sys.executable, "-m", "gameday.latency", url, tenant, workload]
        self._usually = usually
        self._rest: list[float] = []
        self._busy: list[float] = []

    def at_rest(self) -> AbstractContextManager[None]:
        return self._sampled(self._rest)

    def meanwhile(self) -> AbstractContextManager[None]:
        return self._sampled(self._busy)

    def judge(self) -> None:
        """Raise `Broke` if others waited longer than is promised."""
        if len(self._busy) < LEAST:
            raise Broke(f"only {len(self._busy)} calls of others fell into the attack")
        if p99(self._busy) > max(TIMES * p99(self._rest), FLOOR_SECONDS):
            raise Broke(f"others waited: {self}")

    def __str__(self) -> str:
        rest, busy = p99(self._rest), p99(self._busy)
        against = f"{rest * 1000:.1f} ms {self._usually}"
        return f"p99 {busy * 1000:.1f} ms against {against}, {busy / rest:.1f} x"

    @contextmanager
    def _sampled(self, into: list[float]) -> Iterator[None]:
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as calls:
            assert calls.stdout is not None, "it is a pipe"
            calls.stdout.readline()  # it has begun
            try:
                yield
            finally:
                told, _ = calls.communicate()
        found = json.loads(told)
        if isinstance(found, str):
            raise Broke(f"a call of others failed: {found}")
        into += found


def sample(url: str, tenant: str, workload: str, ended: threading.Event) -> list[float] | str:
    """Call at a steady pace until it has ended; return how long each call took, or what failed."""
    times: list[float] = []
    path, body = f"/api/v1/tenants/{tenant}/claim", {"workload": workload}
    with httpx2.Client(base_url=url, timeout=60) as client:
        while not ended.wait(PACE_SECONDS):
            began = time.monotonic()
            try:
                answer = client.post(path, json=body)
            except httpx2.HTTPError as error:
                return f"{type(error).__name__}: {error}"
            if answer.status_code != 200:
                return f"{answer.status_code} {answer.text[:200]}"
            times.append(time.monotonic() - began)
    return times


def p99(times: list[float]) -> float:
    """Return the 99th percentile; a single slow call of a hundred does not count."""
    ordered = sorted(times)
    return ordered[max(0, int(len(ordered) * 0.99) - 1)] if ordered else 0.0


def main(url: str, tenant: str, workload: str) -> None:
    """Sample until stdin ends, then print the times as JSON."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    print(flush=True)
    print(json.dumps(sample(url, tenant, workload, ended)))


if __name__ == "__main__":
    main(*sys.argv[1:])
