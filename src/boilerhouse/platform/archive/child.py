"""The worker, seen from the process that started it.

Child.start(job, workers) ─► stdin, stdout ─► report() | kill()
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boilerhouse.platform.archive.failures import BadArchive, Failed
from boilerhouse.platform.archive.job import Job
from boilerhouse.platform.archive.model import Fingerprint, Packed
from boilerhouse.platform.archive.workers import PIECE, Worker, Workers

_REPORT = 256 << 10  # bytes; longer ones are not ours


class Child:
    """One running worker."""

    def __init__(self, process: Worker) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._said = asyncio.create_task(_all(process.stderr), name="archive worker")

    @classmethod
    async def start(cls, job: Job, workers: Workers) -> Child:
        """Give a worker its job."""
        process = await workers.take()
        child = cls(process)
        child.stdin.write(job.encode())  # small: it fits into the pipe whole
        return child

    async def report(self) -> dict[str, Any]:
        """Wait for its last word, after which it does nothing; raises what it says went wrong."""
        said = await asyncio.shield(self._said)
        try:
            report = ast.literal_eval(said.decode())
        except (ValueError, SyntaxError):
            report = None
        if not isinstance(report, dict) or isinstance(self._process, asyncio.subprocess.Process):
            await self._process.wait()  # a child of ours is buried by us, another by its zygote
        if not isinstance(report, dict):
            words = said.decode(errors="replace").strip().rpartition("\n")[2]
            code = self._process.returncode
            raise Failed("worker-died", f"the archive's worker ended with {code}: {words[:500]}")
        if "bad" in report:
            raise BadArchive(*report["bad"])
        if "failed" in report:
            raise Failed(*report["failed"])
        return report

    async def kill(self) -> None:
        """End it now, whatever it does; may be called again."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.stdin.close()
        while await self.stdout.read(PIECE):
            pass
        await asyncio.shield(self._said)
        await self._process.wait()
        with contextlib.suppress(OSError):  # that it took no more is known, and was told
            await self.stdin.wait_closed()


async def _all(stream: asyncio.StreamReader) -> bytes:
    said = b""
    while piece := await stream.read(PIECE):
        said = (said + piece)[:_REPORT]
    return said


def places(overlays: Mapping[str, Path]) -> list[tuple[bytes, bytes]]:
    """Return each overlay's path in the archive and its directory here."""
    return sorted(
        (os.fsencode(path.strip("/")), os.fsencode(where)) for path, where in overlays.items()
    )


def packed(report: Mapping[str, Any]) -> Packed:
    return Packed(
        report["sha256"], report["size"], report["entries"], report["content"],
        Fingerprint(*report["fingerprint"]), tuple(report["skipped"]),
    )  # fmt: skip
