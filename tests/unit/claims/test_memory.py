"""What a process remembers of its claims."""

from __future__ import annotations

from dataclasses import replace

from boilerhouse.claims.memory import Memory
from boilerhouse.core.clock import FakeClock, rng
from boilerhouse.kube.resources import Key
from tests.unit.claims.views import claim

KEY = Key("sim", "claim")


def memory() -> Memory:
    return Memory(FakeClock(), rng(1))


def test_a_canonical_claim_is_sole_for_ever() -> None:
    """Whoever comes later finds it by its name."""
    kept = memory()
    assert not kept.is_sole(KEY, claim())
    kept.note_sole(KEY, claim())
    assert kept.is_sole(KEY, claim(version="99"))
    assert not kept.is_sole(KEY, claim(uid="another"))


def test_another_name_is_sole_at_one_version_only() -> None:
    """It may have yielded since."""
    kept, mine = memory(), claim(name="mine")
    kept.note_sole(KEY, mine)
    assert kept.is_sole(KEY, mine)
    assert not kept.is_sole(KEY, replace(mine, version="8"))


def test_everything_is_forgotten_with_the_claim() -> None:
    """Setbacks, too."""
    kept = memory()
    kept.note_sole(KEY, claim())
    kept.note_delivered(KEY, "pod-1")
    kept.setbacks.note(KEY, "BindPod", "why")
    assert kept.is_delivered(KEY, "pod-1")
    assert not kept.is_delivered(KEY, "pod-2")
    kept.forget(KEY)
    assert not kept.is_sole(KEY, claim())
    assert not kept.is_delivered(KEY, "pod-1")
    assert kept.setbacks.of(KEY) is None
