"""The workload on a store under the recorder, as it is or with one deliberate mistake.

python -m tests.faults.powerloss.store_program DIRECTORY SEED STEPS [MISTAKE]
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from boilerhouse.embedded.storage import checkpoint, database, journal, store
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
            self._db.execute("PRAGMA synchronous=OFF")
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


def main(directory: str, seed: str, steps: str, mistake: str = "") -> None:
    if mistake:
        MISTAKES[mistake]()
    # Small enough that a short run checkpoints often, starts its log over, and cuts it.
    checkpoint.EVERY = 60_000
    checkpoint.CUT_AT = 400_000

    def tell(*line: object) -> None:
        mark(json.dumps(line))

    workload = Workload(1, int(seed), int(steps), tell)
    asyncio.run(workload.work(Path(directory)))


if __name__ == "__main__":
    main(*sys.argv[1:])
