"""An import of images: a process unpacks an archive beside the event loop, the store takes it over.

archive ─► Import.run (a thread that waits) ─► imageworker.py (a process) ─► staging ─► commit

`cancel` ends the process, and with it the import: nothing of it is left.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from os import getpid
from pathlib import Path

import msgspec
import structlog

from boilerhouse.embedded.kubelet.images.imageworker import Job, Report, Unpacked
from boilerhouse.embedded.kubelet.images.layers import BadImage

SECONDS = 30 * 60  # of one import: 20 GiB at 12 MB a second

log = structlog.get_logger()


class Cancelled(Exception):
    """The import was cancelled before it was through."""


class UnpackingProcess:
    """The process of one import. `run` blocks; `cancel` may be called from any thread."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def run(
        self, archive: Path, staging: Path, known: dict[str, int], name: str | None
    ) -> Sequence[Unpacked]:
        """Unpack an archive into a staging directory; raises `BadImage` or `Cancelled`."""
        job = Job(str(archive), str(staging), getpid(), int(self._seconds), known, name)
        with self._lock:
            if self._cancelled:
                raise Cancelled
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "boilerhouse.embedded.kubelet.images.imageworker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
            )
        try:
            told, said = process.communicate(msgspec.json.encode(job), timeout=self._seconds)
        except subprocess.TimeoutExpired:
            raise BadImage(f"the import took longer than {self._seconds:.0f} seconds") from None
        finally:
            process.kill()
            process.communicate()
        if self._cancelled:
            raise Cancelled
        if said:
            log.warning("image.import_failed", error=said[-4000:].decode(errors="replace"))
        try:
            report = msgspec.json.decode(told, type=Report)
        except msgspec.DecodeError:
            # Killed: by its bound on processor time, or because memory is short.
            raise BadImage(
                f"the archive takes too long or too much memory (the import ended with "
                f"{process.returncode})"
            ) from None
        if report.bad:
            raise BadImage(report.bad)
        return report.images

    def cancel(self) -> None:
        """End the import, whether it runs or is about to."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
