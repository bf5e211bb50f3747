"""Fair shares: a bounded number of places, of which no tenant and no caller gets all.

with services.commands.place(caller, tenant): …     429 with the bound that was met, and Retry-After

One tenant has a quarter of them, whoever calls. A claim's token has a quarter as well; the admin's
key, behind which a whole platform may stand, three quarters, so that it cannot shut the tokens out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from boilerhouse.edge.api.auth import Caller
from boilerhouse.edge.api.errors import too_many

PART = 4  # one part of so many is a tenant's, or a token's; the key leaves one part


class Shares:
    """Places for one kind of thing that goes on for a while. `what` is its plural."""

    def __init__(self, what: str, most: int) -> None:
        self.most = most
        self.most_of_tenant = max(1, most // PART)
        self.taken = 0
        self._what = what
        self._of: Counter[tuple[str, ...]] = Counter()

    @contextmanager
    def place(self, caller: Caller, tenant: str = "") -> Iterator[None]:
        """Hold a place while the context lasts; `Problem` if there is none for this one.

        `tenant` is whom it is about, if it is about one.
        """
        keys = self._check(caller, tenant)
        self._of.update(keys)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            for key in keys:
                self._of[key] -= 1
                if not self._of[key]:
                    del self._of[key]

    def _check(self, caller: Caller, tenant: str) -> list[tuple[str, ...]]:
        what, most = self._what, self.most
        own: tuple[str, ...] = ("caller",)
        bound, who = most - most // PART, "this key"
        if not caller.admin:
            own, bound = ("caller", caller.tenant, caller.workload), self.most_of_tenant
            who = "this token"
        if self._of[own] >= bound:
            raise too_many(f"{who} has {bound} {what} open already, of {most} in all; try again")
        keys = [own]
        if tenant:
            keys.append(("tenant", tenant))
            if self._of[keys[1]] >= self.most_of_tenant:
                raise too_many(
                    f"tenant {tenant!r} has {self.most_of_tenant} {what} open already, "
                    f"of {most} in all; try again"
                )
        if self.taken >= most:
            raise too_many(f"{most} {what} are open already, which is all there may be; try again")
        return keys
