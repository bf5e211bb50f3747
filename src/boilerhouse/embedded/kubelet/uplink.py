"""The way out of a Pod with network access `unrestricted`: a user-mode network stack.

    tenant ─► tap device in the Pod's namespace ─► slirp4netns (outside) ─► the world

Always with the machine's loopback closed: it is where the other tenants, the databases and our own
API listen. It ends when we do: it watches a pipe whose other end we hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from dataclasses import dataclass

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.stdio import End

_READY_SECONDS = 10.0
_SLIRP_DNS = "10.0.2.3"
NO_NAMES = "# this Pod has no network\n"


@dataclass(slots=True)
class Uplink:
    names: str  # the content of /etc/resolv.conf
    _process: asyncio.subprocess.Process
    _leash: int

    @classmethod
    async def start(cls, network: int, user_namespace: str | None) -> Uplink:
        """Connect a network namespace to the world; SandboxError if nothing here can do that.

        `user_namespace` is the path of the one that owns the network, if it is not our own.
        """
        slirp = shutil.which("slirp4netns")
        if slirp is None:
            raise SandboxError(
                "network access `unrestricted` needs slirp4netns, which is not installed "
                "(apt install slirp4netns)"
            )
        ready, their_ready = os.pipe()
        their_leash, leash = os.pipe()
        arguments = [slirp, "--configure", "--mtu=65520", "--disable-host-loopback"]
        arguments += ["--enable-sandbox", "--enable-seccomp"]
        arguments += [f"--ready-fd={their_ready}", f"--exit-fd={their_leash}"]
        if user_namespace is not None:
            arguments += [f"--userns-path={user_namespace}"]
        arguments += ["--netns-type=path", f"/proc/self/fd/{network}", "tap0"]
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(network, their_ready, their_leash),
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        except OSError as error:
            os.close(ready)
            os.close(leash)
            raise SandboxError(f"{slirp} cannot be started: {error}") from error
        finally:
            os.close(their_ready)
            os.close(their_leash)
        uplink = cls(f"nameserver {_SLIRP_DNS}\n", process, leash)
        try:
            await uplink._await_ready(ready)
        except BaseException:
            await uplink.close()
            raise
        return uplink

    async def _await_ready(self, ready: int) -> None:
        end = End(ready)
        try:
            async with asyncio.timeout(_READY_SECONDS):
                if not await end.read():
                    assert self._process.stderr is not None
                    said = (await self._process.stderr.read(4096)).decode(errors="replace")
                    raise SandboxError(f"slirp4netns failed: {said.strip() or 'no reason given'}")
        except TimeoutError:
            raise SandboxError(f"slirp4netns did not start in {_READY_SECONDS:.0f} s") from None
        finally:
            end.close()

    async def close(self) -> None:
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
