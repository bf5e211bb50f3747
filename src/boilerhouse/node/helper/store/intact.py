"""Are an archive's bytes still those that were stored? Its name says which they were.

open archive ─► read through ─► Version | Refused (corrupt-version)
"""

from __future__ import annotations

import os

from boilerhouse.node.helper.store.volume import clear_errors, digest_of
from boilerhouse.node.helper.wire import Version
from boilerhouse.platform.rpc.refusal import Refused


def check(file: int, version: Version) -> None:
    """Read an open archive through; `Refused` if its bytes are not those that were stored."""
    with clear_errors():
        if digest_of(file) != (version.digest, version.size):
            raise corrupt(version)


def read_through(opened: tuple[int, Version]) -> Version:
    """Check an archive, and close it."""
    file, version = opened
    try:
        check(file, version)
    finally:
        os.close(file)
    return version


def corrupt(version: Version) -> Refused:
    return Refused(
        409,
        "corrupt-version",
        f"version {version.seq} ({version.digest}) is damaged on the volume:"
        " its bytes are not those that were stored",
    )
