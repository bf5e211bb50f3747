"""The game day's own parts; its scenarios need a live `up` and run by `make gameday`."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from gameday.__main__ import attempt, main
from gameday.latency import Latencies, p99
from gameday.scenario import SCENARIOS, Broke, NotTried, Scenario, held
from gameday.stage import Stage
from gameday.stalls import negative_size


def test_every_scenario_is_listed_with_its_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list` names all of them, each once."""
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len({line.split(":")[0] for line in lines}) == len(SCENARIOS) > 20


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error runs nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["no-such-thing"])
    assert ended.value.code == 2
    assert "no scenario no-such-thing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "result"),
    [(Broke("seen"), "BROKE"), (NotTried("no root"), "not tried"), (KeyError("x"), "BROKE")],
)
def test_whatever_a_scenario_raises_is_a_result(error: Exception, result: str) -> None:
    """One that fails by surprise does not end the day."""

    def run(stage: Stage) -> str:
        raise error

    class _Up:
        runs = True

    class _Stage:
        up = _Up()

    stage: Stage = _Stage()  # type: ignore[assignment]  # a stage that nothing asks
    assert attempt(Scenario("one", "a promise", run), stage)[0] == result


def test_held_says_what_was_seen_instead() -> None:
    held(1, "never said")
    with pytest.raises(Broke, match="seen instead"):
        held([], "seen instead")


def test_the_slowest_of_a_hundred_is_left_out_of_p99() -> None:
    """One slow call in a hundred is the machine's."""
    assert p99([0.001] * 99 + [9.0]) == 0.001
    assert p99([]) == 0.0


@pytest.mark.parametrize(
    ("rest", "busy", "held"),
    [(0.002, 0.009, True), (0.002, 0.011, False), (0.02, 0.059, True), (0.02, 0.061, False)],
)
def test_others_may_wait_three_times_as_long_or_ten_milliseconds(
    rest: float, busy: float, held: bool
) -> None:
    """Whichever is more; both figures and their ratio are told."""
    latencies = Latencies("http://x", "tenant", "workload", "at rest")
    latencies._rest, latencies._busy = [rest] * 100, [busy] * 100
    with nullcontext() if held else pytest.raises(Broke, match=rf"against {rest * 1000:.1f} ms"):
        latencies.judge()


def test_the_hostile_image_has_a_negative_size() -> None:
    """The attack is the one that it says: the size field is two's complement, below zero."""
    assert int.from_bytes(negative_size()[124:136], "big", signed=True) < 0
