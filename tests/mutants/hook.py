"""Runs one test against a source that was made slightly wrong.

python -m tests.mutants.hook MUTANT ─► import hook changes one module's text ─► pytest runs one test

Programs that such a test starts call `install` before they import what may be wrong.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

_VARIABLE = "BOILERHOUSE_TEST_MUTANT"


class _Loader(SourceFileLoader):
    def __init__(self, mutant: Mutant, path: str) -> None:
        super().__init__(mutant.module, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        # Always from the source: a cached compilation is of the right program.
        source = self.get_data(self.path).decode()
        return self.source_to_code(self._mutant.applied_to(source).encode(), self.path)


class Hook(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(self._mutant, spec.origin)
        return spec


def install() -> None:
    """Make this process as wrong as the one that started it, if that is."""
    name = os.environ.get(_VARIABLE)
    if name:
        sys.meta_path.insert(0, Hook(MUTANTS[name]))


if __name__ == "__main__":
    chosen = MUTANTS[sys.argv[1]]
    os.environ[_VARIABLE] = sys.argv[1]
    install()
    # A start for each mutant: without plugins whose import takes longer than most of the tests.
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    raise SystemExit(pytest.main(["-q", "-x", "--no-header", *without, chosen.caught_by]))
