"""Which generations nothing needs any more. Pure.

A number is given out once, in `latestGeneration`, and a generation that left current, active and
draining never comes back. So one that is not named by some status, and was given out before it,
stays unneeded for ever: it may be deleted even by the word of an old status. One that is newer than
the status knows may be needed by a newer status, and is left alone.
"""

from __future__ import annotations

from boilerhouse.engines.engines.seen import GenerationSeen, Seen


def orphans(seen: Seen) -> list[GenerationSeen]:
    """Return the generations to delete, the oldest first."""
    status = seen.engine.status
    kept = {
        status.current_generation,
        status.active_generation,
        status.draining_generation,
        seen.service.selects,
    }
    return sorted(
        (
            one
            for one in seen.generations
            if one.number <= status.latest_generation and one.number not in kept and one.removable
        ),
        key=lambda one: one.number,
    )
