"""Every mutant is caught by its test."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_still_one(name: str) -> None:
    """What it changes stands in the source, once, and its test is there."""
    file, _, test = MUTANTS[name].caught_by.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()
    spec = find_spec(MUTANTS[name].module)
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).read_text()
    assert MUTANTS[name].applied_to(source) != source


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_caught(name: str) -> None:
    """Its test fails, and fails as a test: not for want of an import."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mutants.hook", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ran.returncode == TESTS_FAILED, f"{name} lives on:\n{ran.stdout[-2000:]}{ran.stderr}"
    assert "1 failed" in ran.stdout
