"""Commands that a workload runs in its instances at the turns of their life, by exec.

RunHook ─► exec in the tenant's container ─► exit code 0, or HookFailed with its last words

A hook may run more than once at its turn: a process that dies meanwhile, or a second one that works
on the same claim, runs it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.exec import Channel
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.tenancy.claims.snapshots import HookFailed
from boilerhouse.tenancy.instances.build import TENANT_CONTAINER

LIMIT = 4 << 10  # bytes of what a command writes that are kept: the last ones
SAID = 300  # characters of it that are repeated


@dataclass(frozen=True, slots=True)
class ExecHooks:
    client: Client

    async def run(self, pod: str, command: Sequence[str], timeout: timedelta) -> None:
        """Run a command to its end in the tenant's container; `HookFailed` if it ends badly.

        Of one that does not end in time we hang up. The embedded kubelet ends it then; a node's may
        let it run on.
        """
        seconds = timeout.total_seconds()
        said = {Channel.STDOUT: b"", Channel.STDERR: b""}
        opening = self.client.pods.exec(pod, command, container=TENANT_CONTAINER)
        try:
            async with asyncio.timeout(seconds), opening as session:
                while (output := await session.read()) is not None:
                    said[output.channel] = (said[output.channel] + output.data)[-LIMIT:]
                code = session.exit_code
        except TimeoutError:
            raise _failed(command, f"did not end within {seconds:g} s", said) from None
        except ApiError as error:
            raise _failed(
                command, f"could not be run to its end ({error.message})", said
            ) from error
        if code:
            raise _failed(command, f"ended with code {code}", said)


def _failed(command: Sequence[str], what: str, said: Mapping[Channel, bytes]) -> HookFailed:
    words = (said[Channel.STDERR] or said[Channel.STDOUT]).decode(errors="replace").strip()[-SAID:]
    return HookFailed(f"{command[0]} {what}{': ' if words else ''}{words}")
