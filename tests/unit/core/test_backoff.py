"""The back-off that everything waits by."""

from __future__ import annotations

import random

import pytest

from boilerhouse.core.backoff import backoff


def test_each_failure_doubles_the_wait_up_to_the_longest() -> None:
    """The first try comes after `first`, none later than `longest`."""
    assert [backoff(n, 0.5, 5.0) for n in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize("failures", [1_023, 1_024, 10**9])
def test_a_million_failures_wait_no_longer(failures: int) -> None:
    """What has failed for months neither overflows nor waits for ever."""
    assert backoff(failures, 0.001, 60.0) == 60.0


def test_jitter_takes_up_to_half_away() -> None:
    """With a random number the wait is spread over the second half of what it would be."""
    rng = random.Random(7)
    waits = [backoff(3, 1.0, 60.0, rng) for _ in range(500)]
    assert 4.0 <= min(waits) < 4.2
    assert 7.8 < max(waits) <= 8.0
