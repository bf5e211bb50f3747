"""A step that failed, as a decision sees it; `platform/loop/stepfailures.py` keeps count."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct


class StepFailure(Struct, frozen=True):
    """The last failure of an object's current step."""

    step: str
    why: str
    count: int  # in a row, of this step
    refused: bool  # the API server forbids it: a quota, a limit range
    due_in: timedelta  # until the next try; zero or less is now
