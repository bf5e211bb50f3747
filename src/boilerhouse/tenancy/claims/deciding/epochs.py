"""Epochs: fencing tokens of the orders to an instance. Only the newest one is carried out.

Several processes may work on one claim, and what they send to an instance may be delayed. Two such
delays would hurt:

* "Save", sent while the claim was Releasing, arrives after the tenant has claimed its instance
  again: it would freeze an instance that is in use, for good.
* "Thaw", sent because the tenant claimed again, arrives between a later save and the deletion:
  what the tenant writes from then on would be in no snapshot.

So orders carry an epoch, a number that only grows, and the instance's agent refuses any that is
older than one it knows of. The number is durable before the order is given:

    Active ──► Releasing          epoch + 1, in the write of the phase
    ReleaseFailed ──► Releasing   epoch + 1, likewise
    ReleaseFailed, claimed again  epoch + 1, in the annotation by which the tenant's call says so

Requests of users name the epoch that they mean, so one that was met is not met again, and no clocks
of two machines are compared. The field's name in the status is `round`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from boilerhouse.tenancy.claims.model import ClaimStatus, Release

TRIES = 3  # to save, in one epoch
DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 4, 16, 30))  # before the next epoch


def release_of(status: ClaimStatus) -> Release:
    return status.release or Release()


def opened(status: ClaimStatus, again: int, cause: str, *, drop: bool = False) -> Release:
    """Return the release at the beginning of an epoch; how often it failed before is kept.

    `again` is the epoch of a re-attachment that was wished for, and is over by this.
    """
    before = release_of(status)
    newest = max(before.epoch, again) + 1
    if before.failed_at is None:
        return Release(epoch=newest, cause=cause, drop=drop)
    return Release(
        epoch=newest,
        cause=cause,
        drop=drop,
        attempts=before.attempts,
        failed_at=before.failed_at,
        last_error=before.last_error,
    )


def failed(status: ClaimStatus, why: str, now: datetime, *, tries: int, asked: bool) -> Release:
    """Return the release after an epoch in which nothing could be saved."""
    before = release_of(status)
    attempts = before.attempts + tries
    delay = DELAYS[min(max(attempts // TRIES, 1), len(DELAYS)) - 1]
    at = now.replace(microsecond=0)
    return Release(
        epoch=before.epoch,
        cause=before.cause,
        attempts=attempts,
        failed_at=at,
        next_try_at=at + delay,
        last_error=why,
        asked=asked,
    )
