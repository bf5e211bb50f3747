"""What the workload told, held against the store that is left of it.

tell lines ──► Ledger.hear ──► Ledger.check(store) ──► sentences about what is wrong

Right is: every acknowledged write is there or was overwritten by a later try; a group is written
wholly or not at all; whatever was acknowledged or seen by the watcher is in the history under its
revision; no revision ever means two things.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boilerhouse.embedded.apiserver.storage.store import Store
from tests.faults.workload import GROUPS, PARTS, SINGLES, key_of

Step = int | None  # None: the object is not there


class Ledger:
    def __init__(self) -> None:
        self._possible: dict[str, list[Step]] = {name: [None] for name in _names()}
        self._known: dict[int, tuple[str, int]] = {}
        self._problems: list[str] = []
        self._opened = 0
        self.acknowledged = 0
        self.seen = 0

    def hear(self, line: Sequence[Any]) -> None:
        match line:
            case ("open", revision):
                newest = max(self._known, default=0)
                if revision < newest:
                    self._problems.append(f"opened at {revision} after {newest} was shown")
                self._opened = revision
            case ("try", name, action, step):
                # A removal leaves nothing; the step is kept to find it when it is acknowledged.
                self._possible[name].append(step if action == "put" else -step)
            case ("ack", name, step, revision):
                self.acknowledged += 1
                steps = self._possible[name]
                at = steps.index(step) if step in steps else steps.index(-step)
                del steps[:at]
                self._learn(revision, name, step)
            case ("seen", name, _, step, revision):
                self.seen += 1
                self._learn(revision, name, step)
            case _:
                raise ValueError(f"unknown line {line}")

    async def check(self, store: Store) -> list[str]:
        """Compare, and take what is there now as the start of what comes next."""
        problems, self._problems = self._problems, []
        if store.revision < self._opened:
            problems.append(f"at {store.revision} after it was opened at {self._opened}")
        found = {name: _step(store, name) for name in self._possible}
        for name, step in found.items():
            possible = [None if s is None or s < 0 else s for s in self._possible[name]]
            if step not in possible:
                problems.append(f"{name} is at step {step}, possible: {possible}")
            self._possible[name] = [step]
        for group in range(GROUPS):
            steps = [found[f"group-{group}-{part}"] for part in PARTS]
            if len(set(steps)) != 1:
                problems.append(f"group-{group} is half applied: {steps}")
        return problems + await self._check_history(store)

    async def _check_history(self, store: Store) -> list[str]:
        history: dict[int, tuple[str, int]] = {}
        watch = store.watch("pods", store.oldest)
        while watch.revision < store.revision:
            for change in await watch.batch():
                step = change.object.body["spec"]["step"]
                history[change.revision] = (change.key.name, step)
        expected = {r: what for r, what in self._known.items() if r > store.oldest}
        return [
            f"revision {revision} was shown as {what}, the history has {history.get(revision)}"
            for revision, what in expected.items()
            if history.get(revision) != what
        ]

    def _learn(self, revision: int, name: str, step: int) -> None:
        before = self._known.setdefault(revision, (name, step))
        if before != (name, step):
            self._problems.append(f"revision {revision} is {before} and {(name, step)}")


def _names() -> list[str]:
    singles = [f"single-{n}" for n in range(SINGLES)]
    return singles + [f"group-{n}-{part}" for n in range(GROUPS) for part in PARTS]


def _step(store: Store, name: str) -> Step:
    stored = store.get(key_of(name))
    return None if stored is None else int(stored.body["spec"]["step"])
