"""The identity files: whose instance this is, told while it runs.

PUT /identity ─► IdentityDirectory ─► /run/boilerhouse/{tenant,workload,claim,token,api-url}

All five appear at one moment, so that a program that waits for one of them may read the others.
Each is a link through `..data` to a directory; replacing that one link is the only step that
readers see:

    tenant ─► ..data/tenant        ..data ─► ..1        ..1/{tenant,workload,claim,token,api-url}

Only the agent can write there, so nothing here needs to be careful about links of others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from boilerhouse.node.agent.protocol import IdentityFiles
from boilerhouse.platform.rpc.refusal import Refused

_CURRENT = "..data"
_NAMES = {
    "tenant": "tenant",
    "workload": "workload",
    "claim": "claim",
    "token": "token",
    "api_url": "api-url",
}


class IdentityDirectory:
    """The directory with the files, of which the disk alone is the truth."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writing = asyncio.Lock()

    async def tell(self, identity: IdentityFiles) -> None:
        """Write the files, all or none. The same again changes nothing.

        `Refused` if it is another tenant, workload or claim than before: an instance serves one,
        ever. Token and API address may be renewed.
        """
        async with self._writing:
            await asyncio.to_thread(self._tell, identity)

    async def told(self) -> bool:
        """Whether the instance is somebody's."""
        return await asyncio.to_thread((self._directory / _CURRENT).is_symlink)

    def _tell(self, wanted: IdentityFiles) -> None:
        found = self._read()
        if found == wanted:
            return
        if found is not None and _whose(found) != _whose(wanted):
            raise Refused(
                409,
                "other-identity",
                f"this instance is {found.tenant}'s (claim {found.claim}) and serves nobody else",
            )
        self._write(wanted)

    def _read(self) -> IdentityFiles | None:
        try:
            version = (self._directory / _CURRENT).readlink()
        except FileNotFoundError:
            return None
        files = self._directory / version
        texts = {field: (files / name).read_text() for field, name in _NAMES.items()}
        return IdentityFiles(**texts)

    def _write(self, identity: IdentityFiles) -> None:
        here = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            there = set(os.listdir(here))  # noqa: PTH208  a descriptor has no Path
            old = [int(n[2:]) for n in there if n.startswith("..") and n[2:].isdecimal()]
            version = f"..{max(old, default=0) + 1}"
            os.mkdir(version, dir_fd=here)
            for field, name in _NAMES.items():
                _write_file(f"{version}/{name}", getattr(identity, field).encode(), here)
                if name not in there:
                    os.symlink(f"{_CURRENT}/{name}", name, dir_fd=here)  # leads nowhere yet
            # Whatever our mask: the tenant is another user.
            os.chmod(version, 0o755, dir_fd=here)  # noqa: S103  a directory to be entered
            draft = f"{_CURRENT}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=here)
            os.symlink(version, draft, dir_fd=here)
            os.rename(draft, _CURRENT, src_dir_fd=here, dst_dir_fd=here)
        finally:
            os.close(here)
        for number in old:
            shutil.rmtree(self._directory / f"..{number}")


# Descriptors instead of paths: this runs once in each claim, and paths took two thirds of it.


def _write_file(name: str, content: bytes, directory: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=directory)
    try:
        os.write(file, content)
        os.fchmod(file, 0o444)
    finally:
        os.close(file)


def _whose(identity: IdentityFiles) -> tuple[str, str, str]:
    return identity.tenant, identity.workload, identity.claim
