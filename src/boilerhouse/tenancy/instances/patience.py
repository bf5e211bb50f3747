"""How long an instance has not been ready, by this process's own monotonic clock.

InstanceSeen ─► Patience.timed ─► InstanceSeen with `waited`

Comparing the wall clock with the API server's times would be simpler, and wrong: an operator whose
clock is three minutes ahead would find every new Pod stuck at birth, and replace it for ever.
A restarted process starts counting anew, which only makes it more patient.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta

from msgspec.structs import replace

from boilerhouse.core.clock import Clock
from boilerhouse.tenancy.instances.seen import InstanceSeen

LIMIT = 20_000


class Patience:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: OrderedDict[str, float] = OrderedDict()  # by UID

    def timed(self, pod: InstanceSeen) -> InstanceSeen:
        """Return the instance with the time for which it was seen waiting, none if it is usable."""
        if pod.usable:
            self._since.pop(pod.uid, None)
            return pod
        now = self._clock.monotonic()
        since = self._since.setdefault(pod.uid, now)
        if len(self._since) > LIMIT:
            self._since.popitem(last=False)
        return replace(pod, waited=timedelta(seconds=now - since))
