"""The way out of a Pod with network access `unrestricted`: a user-mode network stack.

    tenant ─► tap device in the Pod's namespace ─► slirp4netns | pasta (outside) ─► the world

Always with the machine's loopback closed: it is where the other tenants, the databases and our own
API listen. Either program makes the same network, and whichever is installed is used. It ends when
we do: slirp4netns watches a pipe whose other end we hold, pasta is killed by the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from dataclasses import dataclass

from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.kernel.stdio import End, pipes

_READY_SECONDS = 10.0
_DEVICE, _MTU = "tap0", 65520
_ADDRESS, _BITS, _GATEWAY, _DNS = "10.0.2.100", 24, "10.0.2.2", "10.0.2.3"
NO_NAMES = "# this Pod has no network\n"


@dataclass(frozen=True, slots=True)
class _Link:
    """What a program is to connect, and how it tells that it has: descriptors it inherits."""

    network: int
    user_namespace: str | None
    ready: int
    leash: int


@dataclass(frozen=True, slots=True)
class _Slirp:
    path: str
    name: str = "slirp4netns"

    def command(self, link: _Link) -> list[str]:
        owner = [f"--userns-path={link.user_namespace}"] if link.user_namespace else []
        return [
            self.path,
            *("--configure", f"--mtu={_MTU}", "--disable-host-loopback"),
            *("--enable-sandbox", "--enable-seccomp"),
            *(f"--ready-fd={link.ready}", f"--exit-fd={link.leash}"),
            *owner,
            *("--netns-type=path", f"/proc/self/fd/{link.network}", _DEVICE),
        ]


@dataclass(frozen=True, slots=True)
class _Pasta:
    path: str
    setpriv: str
    name: str = "pasta"

    def command(self, link: _Link) -> list[str]:
        # As root it would become `nobody`, who may not enter the Pod's network; its capabilities
        # and its view of the file system it gives up in any case.
        owner = ["--userns", link.user_namespace] if link.user_namespace else ["--runas", "0"]
        return [
            *(self.setpriv, "--pdeathsig", "KILL"),
            *(self.path, "--foreground", "--quiet"),
            # No ports in either direction, and the gateway is not the machine.
            *("--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none"),
            *("--config-net", "--ipv4-only", "--no-dhcp", "-I", _DEVICE, "-m", str(_MTU)),
            *("-a", _ADDRESS, "-n", str(_BITS), "-g", _GATEWAY, "--dns-forward", _DNS),
            *("--pid", f"/proc/self/fd/{link.ready}"),  # written when the network stands
            *owner,
            *("--netns", f"/proc/self/fd/{link.network}"),
        ]


def unavailable() -> str:
    """Say why no Pod can have a way out here; empty if one can."""
    try:
        _installed()
    except SandboxError as error:
        return str(error)
    return ""


def _installed() -> _Slirp | _Pasta:
    slirp = shutil.which("slirp4netns")
    if slirp is not None:
        return _Slirp(slirp)  # the smaller of the two
    pasta, setpriv = shutil.which("pasta"), shutil.which("setpriv")
    if pasta is not None and setpriv is not None:
        return _Pasta(pasta, setpriv)
    raise SandboxError(
        "network access `unrestricted` needs slirp4netns, or pasta and setpriv, and neither is "
        "installed (apt install slirp4netns, or passt)"
    )


@dataclass(slots=True)
class Uplink:
    names: str  # the content of /etc/resolv.conf
    _program: str
    _process: asyncio.subprocess.Process
    _leash: int

    @classmethod
    async def start(cls, network: int, user_namespace: str | None) -> Uplink:
        """Connect a network namespace to the world; SandboxError if nothing here can do that.

        `user_namespace` is the path of the one that owns the network, if it is not our own.
        """
        program = _installed()
        (ready, their_ready), (their_leash, leash) = pipes(2)
        link = _Link(network, user_namespace, their_ready, their_leash)
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command(link),
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
            raise SandboxError(f"{program.path} cannot be started: {error}") from error
        finally:
            os.close(their_ready)
            os.close(their_leash)
        uplink = cls(f"nameserver {_DNS}\n", program.name, process, leash)
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
                    why = said.strip() or "no reason given"
                    raise SandboxError(f"{self._program} failed: {why}")
        except TimeoutError:
            words = f"{self._program} did not start in {_READY_SECONDS:.0f} s"
            raise SandboxError(words) from None
        finally:
            end.close()

    async def close(self) -> None:
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
