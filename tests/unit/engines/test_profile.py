"""Profiles: Firebolt's values are the defaults, and what cannot be served is refused."""

from __future__ import annotations

import msgspec

from boilerhouse.core.problems import problems
from boilerhouse.engines.profile import FIREBOLT, CommandPolicy, Profile


def test_an_empty_profile_is_firebolts() -> None:
    """What is left out is Firebolt's: its container, ports, grace and user."""
    profile = msgspec.convert({}, Profile)
    assert profile == FIREBOLT
    assert profile.container == "engine"
    assert {port.name: port.port for port in profile.ports} == {
        "http-query": 3473,
        "health": 8122,
        "metrics": 9090,
    }
    assert profile.termination_grace_period_seconds == 60
    assert profile.told_grace == 55
    assert profile.user == 3473
    assert profile.command_policy == CommandPolicy.OWNED


def test_durable_data_is_refused_with_the_reason() -> None:
    """A new generation starts with empty disks, so a database on them is not an engine."""
    (found,) = problems(Profile, {"data": "durable"}, "spec.profile")
    assert found.startswith("spec.profile.data: ") and "empty disks" in found


def test_a_drain_check_needs_something_to_sum_up() -> None:
    """An answer without a number is no answer; type none needs none."""
    assert problems(Profile, {"drain": {"type": "http-json"}}) == [
        "spec.drain.sum: what to sum up must be named unless type is none"
    ]
    assert problems(Profile, {"drain": {"type": "none"}}) == []
