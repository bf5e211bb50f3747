"""What a Workload means when nothing is said, and which directories lie in which."""

from __future__ import annotations

import re

import cel
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.core.patterns import re2
from boilerhouse.tenancy.workloads.machine import WorkloadPhase
from boilerhouse.tenancy.workloads.model import (
    Filesystem,
    IdleAction,
    OnFailure,
    PostRestore,
    PreHibernate,
    Restore,
    WorkloadSpec,
    WorkloadStatus,
)
from boilerhouse.tenancy.workloads.network import Access
from boilerhouse.tenancy.workloads.paths import ABSOLUTE, RELATIVE, within
from tests.tables.specs import LEAST, MOST, WORKLOAD


def test_defaults() -> None:
    """A workload of the least has no network, hibernates by restart, keeps three versions."""
    spec = msgspec.convert(LEAST[WORKLOAD], WorkloadSpec)
    assert spec.network.access is Access.NONE
    assert spec.filesystem.restore is Restore.RESTART
    assert spec.filesystem.keep_versions == 3
    assert spec.idle.action is IdleAction.HIBERNATE
    assert spec.idle.timeout_seconds == 0
    assert spec.idle.released_ttl_seconds is None
    assert spec.hibernate_window_seconds == 120
    assert (spec.health, spec.entrypoint, spec.hooks, spec.api_access) == (None,) * 4


def test_hooks_fail_differently_by_default() -> None:
    """A failed preHibernate does not stop the save; a failed postRestore stops the claim."""
    before, after = PreHibernate(command=("a",)), PostRestore(command=("a",))
    assert (before.on_failure, before.timeout_seconds) == (OnFailure.CONTINUE, 30)
    assert (after.on_failure, after.timeout_seconds) == (OnFailure.FAIL, 30)


def test_everything_said_is_read() -> None:
    """No field of the fullest workload is lost on the way in."""
    spec = msgspec.convert(MOST[WORKLOAD], WorkloadSpec)
    assert msgspec.json.decode(msgspec.json.encode(spec)) == MOST[WORKLOAD]


def test_status_is_born_creating() -> None:
    """A status that nobody has written yet says Creating."""
    assert WorkloadStatus().phase is WorkloadPhase.CREATING


PARTS = st.sampled_from(["a", "b", "ab", ".", "..", "...", ".a", "..a", "", " ", "a:b", "\n", "é"])


@given(st.lists(PARTS, max_size=4).map("/".join))
def test_paths_have_one_spelling(text: str) -> None:
    """A path is let in exactly if every component is a plain name."""
    odd = ("", ".", "..", "a:b", "\n")
    relative = all(part not in odd for part in text.split("/"))
    absolute = text[:1] == "/" and all(part not in odd for part in text[1:].split("/"))
    assert bool(re.search(ABSOLUTE, text)) is absolute
    assert bool(re.search(RELATIVE, text)) is relative
    assert cel.evaluate(f"self.matches(r'{re2(ABSOLUTE)}')", {"self": text}) is absolute


DIRS = st.lists(
    st.lists(
        st.sampled_from(["a", "b", "ab", "dev", "run", "boilerhouse"]), min_size=1, max_size=3
    ),
    max_size=4,
    unique_by=tuple,
)


@given(DIRS)
def test_directories_are_told_apart_alike(dirs: list[list[str]]) -> None:
    """CEL and Python agree on which sets of overlay directories are legal, and on why."""
    raw = {"overlayDirs": ["/" + "/".join(parts) for parts in dirs]}
    value = msgspec.convert(raw, Filesystem)
    for rule in Filesystem.RULES:
        assert rule.holds is not None
        assert cel.evaluate(rule.cel, {"self": raw}) is rule.holds(value)


def test_within_goes_by_components() -> None:
    """/ab is not inside /a."""
    assert within("/a", "/a")
    assert within("/a/b", "/a")
    assert not within("/ab", "/a")
    assert not within("/a", "/a/b")
