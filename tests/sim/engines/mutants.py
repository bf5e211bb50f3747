"""Small wrong changes of what decides about engines, and the invariant that each of them breaks.

A guard that can be left out without any of these being noticed is either needless or unchecked.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.mutants.mutant import Mutant

DECIDE = "boilerhouse.engines.engines.decide"
SWEEP = "boilerhouse.engines.engines.sweep"


@dataclass(frozen=True)
class Wrong:
    """One wrong change, what it breaks, and the smallest world in which that is seen."""

    module: str
    right: str
    wrong: str
    breaks: str
    births: Mapping[str, Any] = field(default_factory=lambda: {"edits": 1})
    lag: int = 0
    every_order: bool = False

    def made(self) -> ModuleType:
        """Return the module with the change in it."""
        source = inspect.getsource(importlib.import_module(self.module))
        changed = Mutant(self.module, self.right, self.wrong, self.breaks).applied_to(source)
        module = ModuleType(self.module)
        exec(compile(changed, self.module, "exec"), module.__dict__)
        return module


TWO = {"edits": 2}
TAMPERED = {"edits": 0, "tampers": 1}

MUTANTS = {
    "a number is used twice": Wrong(
        DECIDE, "status.latest_generation + 1", "status.current_generation + 1", "NumbersGrow", TWO
    ),
    "the Service follows what is made": Wrong(
        DECIDE,
        "return status.active_generation if status.active_generation >= 0 else status.current",
        "return status.current_generation if status.active_generation >= 0 else status.current",
        "SwitchesOnlyWhenSwitching",
    ),
    "the Service is switched to Pods that are not ready any more": Wrong(
        DECIDE,
        "(not selected and not current.is_ready(status.current_replicas))",
        "False",
        "SwitchesOnlyToReadyPods",
    ),
    "the Service is never switched": Wrong(
        DECIDE,
        "if steps := tuple(_routed(seen, status.current_generation)):",
        "if steps := ():",
        "Converges",
    ),
    "a generation that is gone becomes active": Wrong(
        DECIDE, "    if gone or (", "    if (", "ActivatesWhatIsThere", {"edits": 1, "tampers": 1}
    ),
    "busy Pods have finished": Wrong(
        DECIDE, "seen.drain.busy == 0", "seen.drain.busy >= 0", "DrainedBeforeCleaned"
    ),
    "Pods that do not answer have finished": Wrong(
        DECIDE, "not seen.drain.failing and ", "", "DrainedBeforeCleaned"
    ),
    "the old generation is forgotten": Wrong(
        DECIDE, "if 0 <= old != status.current_generation:", "if False:", "DrainsWhatServed"
    ),
    "an aborted generation is tried again at once": Wrong(
        DECIDE,
        "if wanted.hash not in (status.active_render_hash, status.aborted_render_hash):",
        "if wanted.hash != status.active_render_hash:",
        "NumbersAreNotWasted",
    ),
    "an abort goes back to what is lost": Wrong(
        DECIDE,
        "if seen.generation(engine.status.active_generation).statefulset.state != State.SOUND:",
        "if engine.status.active_generation < 0:",
        "NumbersAreNotWasted",
        TAMPERED,
    ),
    "an abort keeps the new number": Wrong(
        DECIDE,
        "        current_generation=status.active_generation,\n",
        "",
        "NumbersGrow",
    ),
    "an abort leaves the Service where it is": Wrong(
        DECIDE,
        "    # Before the first intent",
        "    if _to_abort(seen):\n        return _aborted(seen)\n    # Before the first intent",
        "ServiceKnownGen",
        {"edits": 1, "spare": 1},
        lag=1,
    ),
    "changes are not noticed at rest": Wrong(
        DECIDE,
        "if wanted.hash not in (status.active_render_hash, status.aborted_render_hash):",
        "if False:",
        "Converges",
    ),
    "changes are not noticed while a generation is made": Wrong(
        DECIDE, "if wanted.hash != status.current_render_hash:", "if False:", "OneMeaning"
    ),
    "the StatefulSet is made before its configuration": Wrong(
        DECIDE,
        "if absent and all(child.state == State.SOUND for child in others):",
        "if absent:",
        "ConfigBeforeSet",
        {"edits": 0},
        every_order=True,
    ),
    "a change by others is not noticed": Wrong(
        DECIDE,
        'return "the StatefulSet was changed by something else"',
        'return ""',
        "Converges",
        TAMPERED,
    ),
    "the drained generation stays in the status": Wrong(
        DECIDE, "        draining_generation=None,\n", "", "DrainingPhase"
    ),
    "a new number while the old generation drains": Wrong(
        DECIDE,
        "    if _drained(seen, status.draining_generation):",
        "    if seen.wanted and seen.wanted.hash != status.current_render_hash:\n"
        '        return _next(seen, seen.wanted, "")\n'
        "    if _drained(seen, status.draining_generation):",
        "IllegalTransition",
        TWO,
    ),
    "what serves is swept": Wrong(
        SWEEP,
        "        status.active_generation,\n        status.draining_generation,\n"
        "        seen.service.selects,\n",
        "        status.draining_generation,\n",
        "NeverDeletesNeeded",
    ),
    "what drains is swept": Wrong(
        SWEEP, "        status.draining_generation,\n", "", "NeverDeletesNeeded"
    ),
    "what is made is swept": Wrong(
        SWEEP, "        status.current_generation,\n", "", "NeverDeletesNeeded"
    ),
    "what a newer status needs is swept": Wrong(
        SWEEP,
        "one.number <= status.latest_generation and ",
        "",
        "NeverDeletesNeeded",
        {"edits": 1, "spare": 1},
        lag=4,
    ),
    "nothing is swept": Wrong(SWEEP, "and one.removable", "and False", "Converges"),
}
