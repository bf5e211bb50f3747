"""What a background part cannot do at the moment: told once, waited out, and told when it is over.

pass fails ─► failed ─► a log line if this fault is new ─► seconds until the next try
pass works ─► worked ─► a log line if it was the last that failed

A full disk fails a thousand objects for one reason, and a mistake of ours fails one object again
and again: neither may fill the log, and neither may end the part.
"""

from __future__ import annotations

from collections.abc import Hashable

import structlog

from boilerhouse.core.backoff import backoff
from boilerhouse.embedded.apiserver.storage.store import StoreFailed

log = structlog.get_logger()

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0


class Faults:
    """The failures of one part, by what they keep from being done."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._failing: dict[Hashable, int] = {}
        self._told: set[tuple[str, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._failing)

    def failed(self, what: Hashable, error: Exception) -> float:
        """Note a failure; return the seconds to wait, longer each time in a row."""
        count = self._failing[what] = self._failing.get(what, 0) + 1
        kind = _kind(error)
        if kind not in self._told:
            self._told.add(kind)
            # A store that cannot write says why; anything else is a mistake of ours to be found.
            trace = {} if isinstance(error, StoreFailed) else {"exc_info": error}
            log.error("background.failing", part=self.part, what=str(what), error=str(error),
                      **trace)  # fmt: skip
        return backoff(count - 1, FIRST_SECONDS, LONGEST_SECONDS)

    def worked(self, what: Hashable) -> None:
        """Note that it is done, or need not be done any more."""
        if self._failing.pop(what, None) is not None and not self._failing:
            self._told.clear()
            log.info("background.recovered", part=self.part)


def _kind(error: Exception) -> tuple[str, int]:
    """Tell faults apart by what was raised and where, not by the object it was raised for."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    line = frame.tb_lineno if frame is not None and not isinstance(error, StoreFailed) else 0
    return type(error).__name__, line
