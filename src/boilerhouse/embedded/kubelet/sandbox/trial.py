"""A trial container: whether sandboxes can be made on this machine, and if not, why."""

from __future__ import annotations

from boilerhouse.embedded.kubelet.container import NEEDS, ContainerSpec, HostRoot, SandboxError
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped


async def try_out(sandboxes: Bubblewrapped) -> None:
    """Start a trivial container; raises `SandboxError` with the reason if that fails."""
    pod = await sandboxes.create("check")
    try:
        spec = ContainerSpec("check", "check", 0, HostRoot(), ("/bin/sh", "-c", "exit 42"))
        exited = await (await pod.start(spec, _Nowhere())).wait()
    except SandboxError as error:
        raise SandboxError(f"no sandbox can be made on this machine: {error} ({NEEDS})") from error
    finally:
        await pod.close()
        sandboxes.forget("check")
    if exited.code != 42:
        raise SandboxError(f"a trial container ended with {exited}")


class _Nowhere:
    def write(self, stream: str, data: bytes) -> None:
        del stream, data

    def flush(self) -> None:
        return

    def close(self) -> None:
        return
