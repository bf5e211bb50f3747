"""World: what a test asks of an API server, real or ours.

World ──► transport() ──► Api (tests/contract/driver.py) or kube.client.Client

Every world can be restarted and made to forget its past, because what clients see then is part of
the contract. real_fixture.py, embedded_fixture.py and served_fixture.py have one each.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from boilerhouse.platform.kube.wire import Transport


class World(Protocol):
    """One API server for the length of a test."""

    name: str
    installed: set[str]  # definitions that a test need not install again

    def transport(self) -> Transport:
        """Return a way to reach it; whoever asks closes it."""
        ...

    async def restart(self) -> None:
        """Die at once and come back, at the same address and with the same data."""
        ...

    def without_history(self) -> AbstractAsyncContextManager[None]:
        """Forget every past revision for a while, so that what refers to one has expired."""
        ...
