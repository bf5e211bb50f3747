"""The workload on a store under the recorder, as it is or with one deliberate mistake.

python -m tests.faults.powerloss.store_program DIRECTORY SEED STEPS KILLS [MISTAKE]

Each kill ends a process in the middle of its work; another goes on with what it left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from boilerhouse.embedded.apiserver.storage import checkpoint, database, journal, store
from tests.faults.powerloss.recorder import mark
from tests.faults.workload import Workload


def never_sync() -> None:
    database.SYNCHRONOUS = "OFF"


def sync_at_checkpoints_only() -> None:
    database.SYNCHRONOUS = "NORMAL"


def acknowledge_before_commit() -> None:
    class Early(journal.Journal):
        def start(self, loop: asyncio.AbstractEventLoop, done: journal.Done) -> None:
            self._early = done
            super().start(loop, lambda count, failure: None)

        def _try(self, batch: Sequence[journal.Transaction]) -> str:
            async def told() -> None:
                self._early(len(batch), "")
                for _ in range(5):  # until those who waited have run
                    await asyncio.sleep(0)

            asyncio.run_coroutine_threadsafe(told(), self._loop).result()
            return super()._try(batch)

    vars(store)["Journal"] = Early


def checkpoint_without_sync() -> None:
    class Careless(checkpoint.Checkpointer):
        def start(self) -> None:
            self.db.execute("PRAGMA synchronous=OFF")
            super().start()

    vars(journal)["Checkpointer"] = Careless


def split_transactions() -> None:
    def commit_each(self: journal.Journal, batch: Sequence[journal.Transaction]) -> None:
        for transaction in batch:
            for change in transaction.changes:
                self._insert([change])
                self._newest = change.revision

    journal.Journal._commit = commit_each  # type: ignore[method-assign] # the mistake under test


MISTAKES: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        never_sync,
        sync_at_checkpoints_only,
        acknowledge_before_commit,
        checkpoint_without_sync,
        split_transactions,
    )
}


def main(directory: str, seed: str, steps: str, kills: str, mistake: str = "") -> None:
    if mistake:
        MISTAKES[mistake]()
    # Small enough that a short run checkpoints often, starts its log over, and cuts it.
    checkpoint.EVERY = 60_000
    checkpoint.CUT_AT = 400_000
    runs = int(kills) + 1
    for run in range(1, runs):
        child = os.fork()
        if child == 0:
            work(Path(directory), run, int(seed), int(steps), told_at_most=int(steps) * 2)
            os._exit(1)  # it was to be killed
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    work(Path(directory), runs, int(seed), int(steps))


def work(directory: Path, run: int, seed: int, steps: int, told_at_most: int = 1 << 30) -> None:
    told = 0

    def tell(*line: object) -> None:
        nonlocal told
        told += 1
        mark(json.dumps(line))
        if told > told_at_most:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(Workload(run, seed + run, steps, tell).work(directory))


if __name__ == "__main__":
    main(*sys.argv[1:])
