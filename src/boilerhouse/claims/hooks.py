"""Commands that a workload runs in its instances at the turns of their life, by exec.

RunHook ─► exec in the tenant's container ─► exit code 0, or HookFailed with its last words

A hook may run more than once at its turn: a process that dies meanwhile, or a second one that works
on the same claim, runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from boilerhouse.claims.snapshots import HookFailed
from boilerhouse.instances.build import TENANT_CONTAINER
from boilerhouse.kube.client import Client
from boilerhouse.kube.status import ApiError

LIMIT = 4 << 10  # of what a command writes
SAID = 300  # characters of it that are repeated


@dataclass(frozen=True, slots=True)
class ExecHooks:
    client: Client

    async def run(self, pod: str, command: Sequence[str], timeout: timedelta) -> None:
        """Run a command to its end in the tenant's container; `HookFailed` if it ends badly."""
        try:
            ended = await self.client.pods.run(
                pod,
                command,
                container=TENANT_CONTAINER,
                timeout=timeout.total_seconds(),
                limit=LIMIT,
            )
        except ApiError as error:
            raise HookFailed(f"{command[0]}: {error.message}") from error
        if ended.exit_code:
            words = (ended.stderr or ended.stdout).decode(errors="replace").strip()[-SAID:]
            raise HookFailed(f"{command[0]} ended with code {ended.exit_code}: {words}")
