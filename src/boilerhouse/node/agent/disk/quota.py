"""The quota of an instance: at its limit the kernel refuses its writes, and nothing is frozen.

agent starts, files were restored, a larger diskGb ─► impose ─► the tenant gets ENOSPC or EDQUOT
a restore begins ─► lift: the size of its own files never refuses a restore

A file system with quotas is the administrator's to have. Without one, or if it fails, `holds` is
false and the tenant is frozen at its limit instead (guard.py).
"""

from __future__ import annotations

import asyncio
import logging

from boilerhouse.node.agent.disk.limit import DiskLimit
from boilerhouse.node.agent.disk.survey import Counted
from boilerhouse.node.agent.protocol import Usage
from boilerhouse.platform.files.quota import START_ROOM, Quota

log = logging.getLogger(__name__)


class DiskQuota:
    """The quota of one instance, if there is one."""

    def __init__(self, quota: Quota | None) -> None:
        self._quota = quota
        self._turn = asyncio.Lock()
        self.holds = False  # whether the tenant cannot write past its limit

    async def impose(self, limit: DiskLimit) -> None:
        """Set the limit; a little above what is there already, if that is more."""
        if self._quota is None:
            return
        async with self._turn:
            try:
                _, used = await asyncio.to_thread(self._quota.read)
                await asyncio.to_thread(self._quota.set, limit.at_least(used, START_ROOM))
                self.holds = True
            except OSError as error:
                self._failed(error)

    async def lift(self) -> None:
        """Refuse nothing until `impose`."""
        if self._quota is None:
            return
        async with self._turn:
            self.holds = False
            try:
                await asyncio.to_thread(self._quota.set, None)
            except OSError as error:
                self._failed(error)

    async def count(self) -> Counted:
        """Return what the kernel has counted: exact, at once, without a walk. Raises OSError."""
        assert self._quota is not None, "it holds"
        try:
            _, used = await asyncio.to_thread(self._quota.read)
        except OSError as error:
            self._failed(error)
            raise
        usage = Usage(used.bytes, used.inodes, True, {}, 0.0, used.inodes)
        return Counted(usage, True, 0.0)

    def _failed(self, error: OSError) -> None:
        self.holds = False
        log.warning("the quota cannot be used, the tenant is frozen at its limit: %s", error)
