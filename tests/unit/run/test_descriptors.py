"""How the descriptors of a process are divided."""

from __future__ import annotations

import pytest

from boilerhouse.embedded.kubelet.node.nodeobject import PODS
from boilerhouse.run.descriptors import (
    COMMANDS,
    KEPT_BACK,
    LEAST,
    OF_A_COMMAND,
    OF_A_POD,
    TooFewDescriptors,
    divide,
)


@pytest.mark.parametrize("descriptors", [LEAST, 300, 1024, 4096, 20_000, 524_288, 1 << 30])
def test_all_that_may_be_open_at_once_fits(descriptors: int) -> None:
    """Connections, commands and Pods at their bounds leave what the process itself needs."""
    division = divide(descriptors)
    carried_twice = division.connections["pods"]
    used = sum(division.connections.values()) + carried_twice
    used += division.commands * OF_A_COMMAND + min(division.pods, PODS) * OF_A_POD
    assert used + KEPT_BACK <= descriptors
    assert all(most >= 4 for most in division.connections.values())
    assert division.commands >= 4 and division.pods >= 4


def test_where_there_are_many_nothing_is_less_than_it_was() -> None:
    division = divide(524_288)
    assert division.commands == COMMANDS
    assert division.pods >= PODS
    assert division.connections["api"] == 16_384


def test_too_few_are_refused_with_what_to_do() -> None:
    with pytest.raises(TooFewDescriptors, match=r"255 files .*256 at least.*ulimit -Hn"):
        divide(LEAST - 1)
