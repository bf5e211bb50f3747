"""How long the calls of an innocent tenant take: at rest, and while something is attacked.

A thread claims the living instance again (`existing`) and asks for health, at a steady pace. The
figure is the ratio of the two 99th percentiles in one run, never a time by itself. Below FLOOR a
call is fast enough for anybody, and a ratio of two such times is noise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from gameday.scenario import Broke

PACE_SECONDS = 0.02
REST_SECONDS = 4.0
FLOOR_SECONDS = 0.05
ATTACK_SECONDS = 3.0  # at least, so that there is something to measure
LEAST = 10  # calls of others during an attack


def again_and_again() -> Iterator[None]:
    """Repeat an attack until it has lasted long enough to be measured."""
    end = time.monotonic() + ATTACK_SECONDS
    yield
    while time.monotonic() < end:
        yield


class Latencies:
    """`at_rest`, then `meanwhile`, then `judge`."""

    def __init__(self, url: str, tenant: str, workload: str) -> None:
        self._url = url
        self._claim = f"/api/v1/tenants/{tenant}/claim"
        self._body = {"workload": workload}
        self._rest: list[float] = []
        self._busy: list[float] = []
        self._failures: list[str] = []

    def at_rest(self) -> None:
        ended = threading.Event()
        threading.Timer(REST_SECONDS, ended.set).start()
        self._sample(ended, self._rest)

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._sample, args=(ended, self._busy))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def judge(self, times: float) -> None:
        """Raise `Broke` if others waited more than `times` as long, or got an error."""
        if len(self._busy) < LEAST:
            raise Broke(f"only {len(self._busy)} calls of others fell into the attack")
        if self._failures:
            raise Broke(f"{len(self._failures)} calls of others failed: {self._failures[0]}")
        if p99(self._busy) > max(times * p99(self._rest), FLOOR_SECONDS):
            raise Broke(f"others waited: {self}")

    def __str__(self) -> str:
        rest, busy = p99(self._rest), p99(self._busy)
        return f"p99 {busy * 1000:.0f} ms against {rest * 1000:.0f} ms at rest, {busy / rest:.1f} x"

    def _sample(self, ended: threading.Event, into: list[float]) -> None:
        with httpx2.Client(base_url=self._url, timeout=60) as client:
            while not ended.wait(PACE_SECONDS):
                began = time.monotonic()
                try:
                    answer = client.post(self._claim, json=self._body)
                    if answer.status_code != 200:
                        self._failures.append(f"{answer.status_code} {answer.text[:200]}")
                except httpx2.HTTPError as error:
                    self._failures.append(f"{type(error).__name__}: {error}")
                into.append(time.monotonic() - began)


def p99(times: list[float]) -> float:
    """Return the 99th percentile; a single slow call of a hundred does not count."""
    ordered = sorted(times)
    return ordered[max(0, int(len(ordered) * 0.99) - 1)] if ordered else 0.0
