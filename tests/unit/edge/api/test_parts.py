"""The small parts: keys that are kept, timings that add up, answers of nodes that are read."""

from __future__ import annotations

import asyncio
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.edge.api import signing, views
from boilerhouse.edge.api.commands import argv, ending_of
from boilerhouse.edge.api.errors import Problem, problem_of
from boilerhouse.edge.api.inputs import moment
from boilerhouse.platform.kube.kinds import ObjectMeta, Pod, PodStatus
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tests.unit.edge.api.conftest import Rest

POD = Pod(metadata=ObjectMeta(name="inst-a"), status=PodStatus(phase="Running"))


def test_the_key_of_a_machine_is_kept_in_a_private_file(tmp_path: Path) -> None:
    """The same at every start, readable by its owner alone; half a key is replaced."""
    key = signing.in_directory(tmp_path)
    assert len(key) == 32
    assert signing.in_directory(tmp_path) == key
    file = tmp_path / signing.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(b"half")
    assert len(signing.in_directory(tmp_path)) == 32


async def test_the_key_of_a_cluster_is_made_once(rest: Rest) -> None:
    """Of several processes that start together, all have the same."""
    made = await asyncio.gather(*(signing.in_secret(rest.world.client) for _ in range(5)))
    assert len(set(made)) == 1
    assert len(made[0]) == 32


def test_timings_sum_to_the_microsecond() -> None:
    """What no stage accounts for is the API's own; stages longer than the total win."""
    shown = views.timings({"create": 0.0012345, "bind": 0.002}, 0.005)
    assert shown == {"create": 1.234, "bind": 2.0, "api": 1.766, "total": 5.0}
    assert views.timings({"bind": 0.002}, 0.001) == {"bind": 2.0, "api": 0.0, "total": 2.0}
    assert views.timings({}, 0) == {"api": 0.0, "total": 0.0}


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0", 0)],
)
def test_a_duration_is_that_long_ago(text: str, ago: int) -> None:
    """Numbers with units, largest first; a bare number is seconds."""
    clock = FakeClock()
    assert moment(text, clock) == clock.now() - timedelta(seconds=ago)


def test_a_moment_is_itself() -> None:
    """Any offset, and a plus sign that a query string has eaten."""
    clock = FakeClock()
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00Z", "2026-01-31T14:00:00+02:00", "2026-01-31T14:00:00 02:00"):
        assert moment(text, clock) == noon
    for text in ("", "s", "m10", "-5", "1e9", "999999d", "2026-01-31", "٣"):
        with pytest.raises(Problem):
            moment(text, clock)


def test_a_command_with_an_environment() -> None:
    """Kubernetes has none for exec; a name that is none is refused, not passed on."""
    assert argv(["ls"], {}) == ["ls"]
    assert argv(["ls"], {"A": "1", "B_2": "="}) == ["env", "A=1", "B_2==", "ls"]
    for name in ("", "1A", "A=B", "-i", "a b"):
        with pytest.raises(Problem):
            argv(["ls"], {name: "x"})


@pytest.mark.parametrize(
    ("message", "exit_code"),
    [
        ('OCI runtime exec failed: exec: "x": executable file not found in $PATH: unknown', 127),
        ("exec failed: stat /x: no such file or directory", 127),
        ("exec failed: permission denied", 126),
    ],
)
def test_a_runtimes_refusal_is_a_shells_exit_code(message: str, exit_code: int) -> None:
    """What a real node says as an error is how the command ended."""
    ending = ending_of(InternalError(message), "x", POD)
    assert ending.exit_code == exit_code
    assert ending.stderr.startswith(b"x: ")


def test_a_dead_container_is_a_conflict_and_the_rest_goes_on() -> None:
    """409 for what is not running; what is nobody's fault is raised as it came."""
    for error in (BadRequest("container not found"), InternalError("container is not running")):
        with pytest.raises(Problem) as refused:
            ending_of(error, "x", POD)
        assert refused.value.status == 409
    with pytest.raises(Unavailable):
        ending_of(Unavailable("the node is away"), "x", POD)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequest("x"), 400),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (Invalid("x", causes=[Cause("r", "bad", "spec.a")]), 422),
        (TooManyRequests("x", retry_after=7), 429),
        (Forbidden("exceeded quota: q"), 429),
        (Forbidden("no such right"), 503),
        (Unauthorized("who are you"), 503),
        (InternalError("x"), 502),
        (Unavailable("x"), 503),
        (Timeout("x"), 503),
        (Gone("x"), 503),
        (KeyError("x"), 500),
    ],
)
def test_what_the_cluster_says_becomes_what_the_caller_hears(error: Exception, status: int) -> None:
    """The caller is to blame for what it sent, never for what the cluster lacks or forbids us."""
    problem = problem_of(error)
    assert problem.status == status
    if status in (429, 503):
        assert int(problem.headers["retry-after"]) >= 1
    if isinstance(error, ApiError) and status == 422:
        assert problem.details == {"errors": ["spec.a: bad"]}
    if status == 500:
        assert "KeyError" not in problem.message
