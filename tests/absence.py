"""What a test does where something it needs is absent: skip with one sentence, or fail in CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.kubelet.sandbox.sandbox import Bubblewrapped
from boilerhouse.embedded.kubelet.sandbox.trial import try_out


def absent(sentence: str) -> NoReturn:
    """Skip the test, or fail it where everything is expected to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and {sentence}", pytrace=False)
    pytest.skip(sentence)


async def sandbox_unavailable(directory: Path, clock: Clock) -> list[str]:
    """Start a trivial container and return why that failed; empty if containers run here."""
    try:
        opened = await Bubblewrapped.open(directory, clock)
        try:
            await try_out(opened)
        finally:
            await opened.close()
    except SandboxError as error:
        return [str(error)]
    return []
