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
import shutil
from pathlib import Path

from boilerhouse.agent.protocol import IdentityFiles, Refused

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
        old = self._versions()
        version = self._directory / f"..{max(old, default=0) + 1}"
        version.mkdir()
        for field, name in _NAMES.items():
            file = version / name
            file.write_text(getattr(identity, field))
            file.chmod(0o444)
            with contextlib.suppress(FileExistsError):  # leads nowhere until the step below
                (self._directory / name).symlink_to(f"{_CURRENT}/{name}")
        version.chmod(0o755)  # whatever the process's mask: the tenant has another user
        draft = self._directory / f"{_CURRENT}.new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(version.name)
        draft.rename(self._directory / _CURRENT)
        for number in old:
            shutil.rmtree(self._directory / f"..{number}")

    def _versions(self) -> list[int]:
        return [
            int(path.name[2:])
            for path in self._directory.iterdir()
            if path.name.startswith("..") and path.name[2:].isdecimal()
        ]


def _whose(identity: IdentityFiles) -> tuple[str, str, str]:
    return identity.tenant, identity.workload, identity.claim
