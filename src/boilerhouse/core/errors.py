"""How work fails: the vocabulary between a step that failed and the loop that ran it.

step raises ─► Retry      ─► back off, try again
               Conflict   ─► somebody else was faster: look again soon
               Overloaded ─► try again when the other side has asked for it
               Terminal   ─► status says why, no requeue until something changes
               other      ─► treated as Retry, and logged with its traceback
"""

from __future__ import annotations

from datetime import timedelta


class Retry(Exception):
    """It did not work this time; later it may.

    `after` asks for a certain delay; without it the queue's back-off decides.
    """

    def __init__(self, message: str, *, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after


class Conflict(Exception):
    """What was to be written to has changed meanwhile. Not a failure: decide again on what is."""


class Overloaded(Exception):
    """The other side cannot now; `after` is when it wants to be asked again, if it said so."""

    @property
    def after(self) -> timedelta | None:
        return None


class Terminal(Exception):
    """Trying again cannot help; a person or a change of spec must. The message says what to do."""


class IllegalTransition(Exception):
    """A phase was about to be written that the lifecycle's table does not allow: always a bug."""
